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
  /** The line of each character, counted from 1. */
  const lines = new Uint32Array(source.length + 1);
  for (let at = 0, line = 1; at <= source.length; at++) {
    lines[at] = line;
    if (source[at] === "\n") line += 1;
  }
  const lineOf = (at: number) => lines[at] ?? 1;
  const linesOf = ({ start, end }: Node) => lineOf(end) - lineOf(start) + 1;
  const found: MeasuredFunction[] = [];
  /** Returns the lines of the outermost functions in `node`. */
  const visit = (node: Node, parent: Node | null): number => {
    let nested = 0;
    for (const child of childrenOf(node)) nested += visit(child, node);
    if (!isFunction(node)) return nested;
    const lines = linesOf(node);
    found.push({ name: nameOf(node, parent), line: lineOf(node.start), lines, own_lines: lines - nested });
    return lines > NESTED_LINES ? lines : 0;
  };
  visit(program as unknown as Node, null);
  return found;
}

function isFunction({ type, body }: Node): boolean {
  return /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type) && body != null;
}

function childrenOf(node: Node): Node[] {
  const children: Node[] = [];
  for (const value of Object.values(node)) {
    if (Array.isArray(value)) for (const each of value) if (isNode(each)) children.push(each);
    if (isNode(value)) children.push(value);
  }
  return children;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}

function nameOf(node: Node, parent: Node | null): string {
  const named = [node.id, parent?.id, parent?.key].find((each) => (each as { name?: string } | null)?.name);
  return (named as { name?: string } | undefined)?.name ?? "(anonymous)";
}
