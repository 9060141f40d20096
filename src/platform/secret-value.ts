import { inspect } from "node:util";

const SHOWN = "[secret]";

/**
 * A value that shows itself to nobody who prints, logs, joins or serialises it. Only what sends it may `reveal` it:
 * test/tidy.test.ts holds that to platform/.
 */
export class SecretValue {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  /** The value in the clear, for the moment of sending and for scrubbing what comes back. */
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
