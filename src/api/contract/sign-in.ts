import { instantSchema, json, noFields, textSchema, uuidSchema } from "./common.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** People's sign-in with e-mail and password: contract 3. The session travels in a cookie that no script can read. */

const PASSWORD_LENGTH = { min: 10, max: 200 } as const;

/** Over https the cookie is bound to the host, so that no neighbouring one can set it (RFC 6265bis, `__Host-`). */
export function sessionCookieName(secure: boolean): string {
  return secure ? "__Host-purser_session" : "purser_session";
}

const emailSchema = z
  .email()
  .max(254)
  .transform((email) => email.toLowerCase());
const newPassword = textSchema(PASSWORD_LENGTH.max).min(PASSWORD_LENGTH.min);
/** A password that is only compared has no minimum length. */
const presentedPassword = textSchema(PASSWORD_LENGTH.max).min(1);
const linkToken = z.string().min(1).max(200);

const signedInSchema = z
  .object({
    user: z.object({ id: uuidSchema, email: z.string() }),
    session: z.object({ expires_at: instantSchema }),
  })
  .openapi("SignedIn");
export type SignedIn = z.infer<typeof signedInSchema>;

const signedUpSchema = signedInSchema
  .extend({
    trial: z.enum(["granted", "used_before"]).openapi({
      description:
        "used_before: this mailbox had its one trial before, also under another spelling or in a deleted account, so the account begins empty",
    }),
  })
  .openapi("SignedUp");
export type SignedUp = z.infer<typeof signedUpSchema>;

const deliverySchema = z
  .enum(["mail", "log"])
  .openapi({ description: "log: no SMTP_URL is set, so the operator finds the link in the service's log" });
const linkSentSchema = z.object({ status: z.literal("link_sent"), delivery: deliverySchema }).openapi("LinkSent");

const currentSchema = z
  .object({
    user: signedInSchema.shape.user.nullable(),
    session: signedInSchema.shape.session.nullable(),
    signup: z.enum(["open", "closed"]),
    verification: z.enum(["link", "none"]).openapi({
      description:
        "link: a sign-up takes the address, and the mailed link asks for the password; none: signed in at once",
    }),
    delivery: deliverySchema,
  })
  .openapi("CurrentSession");

const signedIn = json(signedInSchema, "signed in: the cookie is set");
const linkSent = json(linkSentSchema, "a mail is on its way: the answer is the same for each address");

const routes = routesOf("Sign-in");
/** Operations that end or change the session of the caller. */
const needsSession = [{ session: [] }];
/** Operations that also answer without a session. */
const takesSession = [{ session: [] }, {}];

export const signUp = routes.post("/api/v1/auth/sign-up/email", {
  summary:
    "Sign up: the mailed link opens a page that asks for the password. Each attempt sends a mail, or answers that none was sent",
  body: z.strictObject({
    email: emailSchema,
    password: newPassword.optional().openapi({
      description:
        "needed where `verification` is `none`. Where it is `link`, this password is not used: verify-email sets the password",
    }),
  }),
  answers: {
    201: json(signedUpSchema, "signed in at once: a service that only this machine can reach, without SMTP_URL"),
    202: linkSent,
  },
  fails: [403, 409],
});

export const verifyEmail = routes.post("/api/v1/auth/verify-email", {
  summary: "Follow the link of a sign-up and set the password: creates the user, with the trial, and signs them in",
  body: z.strictObject({ token: linkToken, password: newPassword }),
  answers: { 201: json(signedUpSchema, "signed in: the cookie is set") },
  fails: [403, 409],
});

export const signIn = routes.post("/api/v1/auth/sign-in/email", {
  summary: "Sign in",
  body: z.strictObject({ email: emailSchema, password: presentedPassword }),
  answers: { 200: signedIn },
  fails: [403],
});

export const requestPasswordReset = routes.post("/api/v1/auth/request-password-reset", {
  summary: "Ask for a link to set a new password; the answer is the same whether there is such a user",
  body: z.strictObject({ email: emailSchema }),
  answers: { 202: linkSent },
  fails: [403],
});

export const resetPassword = routes.post("/api/v1/auth/reset-password", {
  summary: "Set a new password by the mailed link; all sessions end, and a new one begins",
  body: z.strictObject({ token: linkToken, new_password: newPassword }),
  answers: { 200: signedIn },
  fails: [403],
});

export const changePassword = routes.post("/api/v1/auth/change-password", {
  summary: "Change the password of who is signed in; all other sessions end",
  security: needsSession,
  body: z.strictObject({ current_password: presentedPassword, new_password: newPassword }),
  answers: { 200: signedIn },
  fails: [403],
});

export const confirmPassword = routes.post("/api/v1/auth/confirm-password", {
  summary: "Give the password again, which an operator's session needs for the operator API",
  security: needsSession,
  body: z.strictObject({ password: presentedPassword }),
  answers: {
    200: json(z.object({ confirmed_until: instantSchema }), "this session may use the operator API until then"),
  },
  fails: [403],
});

export const deleteAccount = routes.post("/api/v1/auth/delete-account", {
  summary: "Erase who is signed in: keys, secrets, agents and personal data; the ledger is kept without a name",
  security: needsSession,
  body: z.strictObject({ current_password: presentedPassword }),
  answers: { 204: { description: "erased" } },
  fails: [403],
});

export const signOut = routes.post("/api/v1/auth/sign-out", {
  summary: "End this session",
  security: takesSession,
  optional_body: noFields,
  answers: { 204: { description: "signed out" } },
  fails: [403],
});

export const signOutEverywhere = routes.post("/api/v1/auth/sign-out-everywhere", {
  summary: "End every session of who is signed in, this one too",
  security: needsSession,
  optional_body: noFields,
  answers: { 204: { description: "signed out everywhere" } },
  fails: [403],
});

export const getSession = routes.get("/api/v1/auth/get-session", {
  summary: "Who is signed in, and what signing up takes here",
  security: takesSession,
  answers: { 200: json(currentSchema, "user and session are null for who is not signed in") },
  fails: [403],
});
