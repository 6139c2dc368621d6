import "./turn.css";

export { callKey, roundKey, turnKey } from "./desk.ts";
export { ThreadView } from "./thread_view.tsx";
