import { PurserError } from "../kernel/errors.ts";
import { createFairQueue, QueueRefused } from "../platform/lib/fair-queue.ts";
import { raceAbort } from "../platform/lib/race-abort.ts";
import type { Log } from "../platform/telemetry/log.ts";
import { type AskModel, JUDGE_KINDS, type Judgement, type JudgeSettings, judge } from "./judge-kinds.ts";
import type { AskedFor, AskedPart } from "./judging/asked-parts.ts";
import type { Detection } from "./judging/detect.ts";

/** The most pages that one judge judges at a time, of all users and of one user. Others wait, until their time is up. */
const LIMITS = { slots: 16, slots_each: 4, waiting: 256, waiting_each: 32 } as const;
/** Statuses of a model's errors that concern its caller: no tokens, a model that is not allowed, too many requests. */
const USERS_OWN: ReadonlySet<number> = new Set([402, 403, 429]);
/** The most calls at a time for one page. */
const LANES = 4;

/** What a judge did for one page, for the step's record. */
export interface JudgeReport {
  /** Its kind, with a number if the file has several of the kind. */
  readonly judge: string;
  /** The number of parts that it was asked about, of those that it removed, and of those that it did not judge. */
  readonly asked: number;
  readonly removed: number;
  readonly unanswered: number;
  /** Its highest score, and its word for it. */
  readonly score: number | null;
  readonly label?: string;
}

/** The opinion of all judges: the passages to remove, and their highest score. */
export interface Opinion extends Pick<Detection, "passages" | "score"> {
  readonly reports: readonly JudgeReport[];
}

/** The user whose page is judged. `signal` ends the wait for the judges; it is the run's. */
export interface Judged {
  readonly user_id: string;
  readonly askModel: AskModel;
  readonly signal: AbortSignal;
}

/** The operator's judges. */
export interface Judges {
  /** The parts of a page that they are asked about. Empty without judges. */
  readonly wanted: readonly AskedFor[];
  /** null: a judge did not judge all of its parts, and nothing of the page may be used then. Throws when `signal` is aborted. */
  ask(parts: NonNullable<Detection["for_judges"]>, judged: Judged): Promise<Opinion | null>;
}

/** Judges work beside each other. Each has its own turns and time, so that none delays another. */
export function createJudges(settings: readonly JudgeSettings[], log: Pick<Log, "info" | "warn">): Judges {
  const judges = settings.map((each, at) => {
    const nth = settings.slice(0, at).filter(({ kind }) => kind === each.kind).length + 1;
    return createJudge(nth === 1 ? each.kind : `${each.kind} ${nth}`, each, log);
  });
  return {
    wanted: [...new Set(settings.map(({ when }) => when))],
    async ask(parts, judged) {
      const opinions = await Promise.all(judges.map((askOne) => askOne(parts, judged)));
      judged.signal.throwIfAborted();
      if (opinions.includes(null)) return null;
      const given = opinions.filter((opinion) => opinion !== null);
      return {
        passages: given.flatMap(({ passages }) => passages),
        score: Math.max(0, ...given.map(({ score }) => score)),
        reports: given.flatMap(({ reports }) => reports),
      };
    },
  };
}

function createJudge(name: string, settings: JudgeSettings, log: Pick<Log, "info" | "warn">) {
  const { kind, threshold, timeout_ms, when, on_error } = settings;
  const queue = createFairQueue(LIMITS);
  let is_silent = false;

  /** Logs the first failure after an answer, and the first answer after a failure. */
  function noteAnswer(error: unknown): void {
    // A user's own error, such as too few tokens for a model, is none of the judge.
    if (error instanceof PurserError && USERS_OWN.has(error.shape.status)) return;
    if (error !== null && !is_silent) {
      const reason = reasonOf(error, timeout_ms);
      log.warn({ judge: name, reason, on_error }, "a judge of PURSER_CONFIG does not answer; its on_error holds");
    }
    if (error === null && is_silent) log.info({ judge: name }, "a judge of PURSER_CONFIG answers again");
    is_silent = error !== null;
  }

  /** The judgement of each part; null where none came in time. */
  async function judgementsOf(parts: readonly AskedPart[], { user_id, askModel, signal }: Judged) {
    const judgements: (Judgement | null)[] = parts.map(() => null);
    const until = AbortSignal.any([signal, AbortSignal.timeout(timeout_ms)]);
    const { batch } = JUDGE_KINDS[kind];
    let error: unknown = null;
    let next = 0;
    const lane = async () => {
      while (next < parts.length && error === null) {
        const from = next;
        next += batch;
        const texts = parts.slice(from, next).map(({ text }) => text);
        try {
          const answers = await raceAbort(judge(texts, settings, { askModel, signal: until }), until);
          judgements.splice(from, answers.length, ...answers);
        } catch (thrown) {
          error ??= thrown;
        }
      }
    };
    await queue
      .run(user_id, until, () => Promise.all(Array.from({ length: LANES }, lane)))
      .catch((thrown: unknown) => {
        error ??= thrown;
      });
    if (!signal.aborted) noteAnswer(error);
    return judgements;
  }

  return async (asked: Partial<Record<AskedFor, readonly AskedPart[]>>, judged: Judged): Promise<Opinion | null> => {
    const parts = asked[when] ?? [];
    if (parts.length === 0) return { passages: [], score: 0, reports: [] };
    const judgements = await judgementsOf(parts, judged);
    const answers = judgements.filter((each) => each !== null);
    const unanswered = judgements.length - answers.length;
    if (unanswered > 0 && on_error === "block") return null;
    const removed = parts.filter((_, at) => (judgements[at]?.score ?? 0) >= threshold);
    const [strongest] = answers.toSorted((a, b) => b.score - a.score);
    const report = {
      judge: name,
      asked: parts.length,
      removed: removed.length,
      unanswered,
      score: strongest?.score ?? null,
      ...(strongest?.label === undefined ? {} : { label: strongest.label.slice(0, 100) }),
    };
    return {
      passages: removed.map(({ start, end }) => ({ start, end, cues: [`judged by ${name}`], is_doubtful: false })),
      score: removed.length === 0 ? 0 : Math.max(0.5, strongest?.score ?? 0),
      reports: [report],
    };
  };
}

function reasonOf(error: unknown, timeout_ms: number): string {
  if (error instanceof QueueRefused) return "too many pages wait for it";
  const { name, message, cause } = error as Error;
  if (name === "TimeoutError") return `no answer within ${timeout_ms} ms`;
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? message;
}
