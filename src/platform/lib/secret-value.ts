import { inspect } from "node:util";

const SHOWN = "[secret]";

/**
 * A value that stays hidden when it is printed, logged, joined or serialised. Only code that sends it may `reveal` it:
 * test/tidy.test.ts restricts that to platform/.
 */
export class SecretValue {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  /** The plain value, for sending it and for searching answers for it. */
  reveal(): string {
    return this.#value;
  }
  toString(): string {
    return SHOWN;
  }
  toJSON(): string {
    return SHOWN;
  }
  [Symbol.toPrimitive](): string {
    return SHOWN;
  }
  [inspect.custom](): string {
    return SHOWN;
  }
}
