import "./turn.css";

export { callKey, roundKey, turnKey } from "./desk";
export { ThreadView } from "./thread-view";
