import { parseSync } from "oxc-parser";

/** A function of a source file. Lines are counted from its first to its last. */
export interface MeasuredFunction {
  name: string;
  line: number;
  lines: number;
  /** `lines` without the nested functions of more than three lines. */
  own_lines: number;
}

interface Node {
  type: string;
  start: number;
  end: number;
  [field: string]: unknown;
}

const NESTED_LINES = 3;

/** Every function of a TypeScript file, closures and components included. */
export function functionsOf(file: string, source: string): MeasuredFunction[] {
  const { program } = parseSync(file, source);
  const breaks = [...source.matchAll(/\n/g)].map(({ index }) => index);
  /** The line of a position, counted from 1. */
  const lineOf = (at: number) => {
    const next = breaks.findIndex((index) => index >= at);
    return (next === -1 ? breaks.length : next) + 1;
  };
  const linesOf = ({ start, end }: Node) => lineOf(end) - lineOf(start) + 1;
  const found: MeasuredFunction[] = [];
  const nestedLines = (node: Node): number =>
    childrenOf(node).reduce((sum, child) => {
      if (!isFunction(child)) return sum + nestedLines(child);
      const lines = linesOf(child);
      return sum + (lines > NESTED_LINES ? lines : 0);
    }, 0);
  const visit = (node: Node, parent: Node | null) => {
    if (isFunction(node)) {
      const lines = linesOf(node);
      const own_lines = lines - nestedLines(node);
      found.push({ name: nameOf(node, parent), line: lineOf(node.start), lines, own_lines });
    }
    for (const child of childrenOf(node)) visit(child, node);
  };
  visit(program as unknown as Node, null);
  return found;
}

function isFunction({ type, body }: Node): boolean {
  return /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type) && body != null;
}

function childrenOf(node: Node): Node[] {
  const values = Object.values(node).flatMap((value) => (Array.isArray(value) ? value : [value]));
  return values.filter((value): value is Node => typeof value?.type === "string");
}

function nameOf(node: Node, parent: Node | null): string {
  const named = [node.id, parent?.id, parent?.key].find((each) => (each as { name?: string } | null)?.name);
  return (named as { name?: string } | undefined)?.name ?? "(anonymous)";
}
