export { postForm } from "./form";
export { HttpApi } from "./http_api";
export { ApiError, type Call, type KeyedCall } from "./transport";
export type * from "./types";
