import "../turn/turn.css";

export { Margin } from "./margin.tsx";
