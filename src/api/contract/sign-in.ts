import { createRoute, z } from "@hono/zod-openapi";
import { emptyBody, failures, instantSchema, json, jsonBody, textSchema, uuidSchema } from "./common.ts";

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

const tags = ["Sign-in"];
const signedIn = json(signedInSchema, "signed in: the cookie is set");
const linkSent = json(linkSentSchema, "a mail is on its way: the answer is the same for each address");

/** Operations that end or change the session of the caller. */
const needsSession = { security: [{ session: [] as string[] }] };
/** Operations that also answer without a session. */
const takesSession = { security: [{ session: [] as string[] }, {}] };

function authPost<const Path extends string, S extends z.ZodType>(path: Path, summary: string, body: S) {
  return { method: "post", path: `/api/v1/auth/${path}`, tags, summary, request: jsonBody(body) } as const;
}

export const signUp = createRoute({
  ...authPost(
    "sign-up/email",
    "Sign up: the mailed link opens a page that asks for the password. Each attempt sends a mail, or answers that none was sent",
    z.strictObject({
      email: emailSchema,
      password: newPassword.optional().openapi({
        description:
          "needed where `verification` is `none`. Where it is `link`, this password is not used: verify-email sets the password",
      }),
    }),
  ),
  responses: {
    201: json(signedUpSchema, "signed in at once: a service that only this machine can reach, without SMTP_URL"),
    202: linkSent,
    ...failures(400, 403, 409),
  },
});

export const verifyEmail = createRoute({
  ...authPost(
    "verify-email",
    "Follow the link of a sign-up and set the password: creates the user, with the trial, and signs them in",
    z.strictObject({ token: linkToken, password: newPassword }),
  ),
  responses: { 201: json(signedUpSchema, "signed in: the cookie is set"), ...failures(400, 403, 409) },
});

export const signIn = createRoute({
  ...authPost("sign-in/email", "Sign in", z.strictObject({ email: emailSchema, password: presentedPassword })),
  responses: { 200: signedIn, ...failures(400, 401, 403) },
});

export const requestPasswordReset = createRoute({
  ...authPost(
    "request-password-reset",
    "Ask for a link to set a new password; the answer is the same whether there is such a user",
    z.strictObject({ email: emailSchema }),
  ),
  responses: { 202: linkSent, ...failures(400, 403) },
});

export const resetPassword = createRoute({
  ...authPost(
    "reset-password",
    "Set a new password by the mailed link; all sessions end, and a new one begins",
    z.strictObject({ token: linkToken, new_password: newPassword }),
  ),
  responses: { 200: signedIn, ...failures(400, 403) },
});

export const changePassword = createRoute({
  ...needsSession,
  ...authPost(
    "change-password",
    "Change the password of who is signed in; all other sessions end",
    z.strictObject({ current_password: presentedPassword, new_password: newPassword }),
  ),
  responses: { 200: signedIn, ...failures(400, 401, 403) },
});

export const deleteAccount = createRoute({
  ...needsSession,
  ...authPost(
    "delete-account",
    "Erase who is signed in: keys, secrets, agents and personal data; the ledger is kept without a name",
    z.strictObject({ current_password: presentedPassword }),
  ),
  responses: { 204: { description: "erased" }, ...failures(400, 401, 403) },
});

export const signOut = createRoute({
  ...takesSession,
  method: "post",
  path: "/api/v1/auth/sign-out",
  tags,
  summary: "End this session",
  request: emptyBody,
  responses: { 204: { description: "signed out" }, ...failures(403) },
});

export const signOutEverywhere = createRoute({
  ...needsSession,
  method: "post",
  path: "/api/v1/auth/sign-out-everywhere",
  tags,
  summary: "End every session of who is signed in, this one too",
  request: emptyBody,
  responses: { 204: { description: "signed out everywhere" }, ...failures(401, 403) },
});

export const getSession = createRoute({
  ...takesSession,
  method: "get",
  path: "/api/v1/auth/get-session",
  tags,
  summary: "Who is signed in, and what signing up takes here",
  responses: { 200: json(currentSchema, "user and session are null for who is not signed in"), ...failures(403) },
});
