import { Link, useRouter } from "@tanstack/react-router";
import { asProblem } from "./api/problem.ts";
import { buttonClass, Empty } from "./ui/basics.tsx";
import { ProblemNotice } from "./ui/problem.tsx";

/** What stands where a page could not be shown. */
export function PageProblem({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <main className="mx-auto max-w-2xl px-4 py-16">
      <title>Something went wrong · Purser</title>
      <h1 className="mb-4 text-xl font-semibold">This page could not be shown</h1>
      <ProblemNotice error={error} onRetry={() => void router.invalidate()} />
    </main>
  );
}

/** The same within the frame: the way on is beside it. */
export function PagePartProblem({ error }: { error: unknown }) {
  const router = useRouter();
  const gone = asProblem(error).status === 404;
  return (
    <div className="max-w-2xl">
      <title>{gone ? "Not found · Purser" : "Something went wrong · Purser"}</title>
      <h1 className="mb-4 text-xl font-semibold">{gone ? "It is not here" : "This page could not be shown"}</h1>
      <ProblemNotice error={error} {...(gone ? {} : { onRetry: () => void router.invalidate() })} />
    </div>
  );
}

export function NotFound() {
  return (
    <main className="mx-auto max-w-2xl px-4 py-16">
      <title>Not found · Purser</title>
      <h1 className="sr-only">Not found</h1>
      <Empty
        icon="overview"
        title="There is no such page"
        action={
          <Link to="/" className={buttonClass("primary")}>
            To the overview
          </Link>
        }
      >
        The address may be mistyped, or what was here has been deleted.
      </Empty>
    </main>
  );
}
