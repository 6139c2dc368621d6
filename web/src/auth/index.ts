export type { User } from "./claims.ts";
export { loadConfig, type PageConfig } from "./config.ts";
export { type AuthCode, AuthError, type Kept } from "./error.ts";
export type { AuthSession } from "./session.ts";
export { SignIn } from "./sign_in.ts";
