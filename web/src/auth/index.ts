export type { User } from "./claims";
export { loadConfig, type PageConfig } from "./config";
export { type AuthCode, AuthError } from "./error";
export type { AuthSession } from "./session";
export { SignIn } from "./sign_in";
