import { createPasswords } from "../../src/accounts/password.ts";

/** Passwords hashed in no time, for tests of something else: what a hash costs is shown where it is tested. */
export const cheapPasswords = () => createPasswords({ N: 16, r: 1, p: 1 });
