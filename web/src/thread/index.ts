export { emptyThread, foldEffects } from "./fold";
export { prependPage } from "./pages";
export type * from "./thread";
