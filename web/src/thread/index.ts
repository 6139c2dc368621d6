export { emptyThread, foldEffects } from "./fold.ts";
export { prependPage } from "./pages.ts";
export * from "./select.ts";
export type * from "./thread.ts";
