export { postForm } from "./form.ts";
export { HttpApi } from "./http_api.ts";
export { ApiError, type Call, type KeyedCall } from "./transport.ts";
export type * from "./types.ts";
