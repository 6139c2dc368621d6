export { emptyThread, foldEffects } from "./fold";
export { prependPage } from "./pages";
export * from "./select";
export type * from "./thread";
