import { createPasswords } from "../../src/account/users/password.ts";

/** Hashes passwords at no cost. The cost of a hash has tests of its own. */
export const cheapPasswords = () => createPasswords({ N: 16, r: 1, p: 1 });
