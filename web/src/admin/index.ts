import "./limits.css";

export { LimitsView } from "./limits_view.tsx";
