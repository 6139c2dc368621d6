import type { SteplineAgent, Verdict } from "@stepline/ag-ui";

/** Show what waits for an approval. The field has the reason of a denial, or other parameters as JSON. */
export function showInterrupts(agent: SteplineAgent, takeText: () => string, run: SteplineAgent["runAgent"]): void {
  const answer = (payload: Verdict) => {
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved" as const, payload }));
    void run({ resume });
  };
  const shown = agent.pendingInterrupts.flatMap(({ message = "" }) => [
    message,
    button("Approve", () => answer({ approved: true })),
    button("Deny", () => answer({ approved: false, text: takeText() })),
    button("Edit", () => answer({ approved: true, params: JSON.parse(takeText()) })),
  ]);
  document.querySelector("section")?.replaceChildren(...shown);
}

function button(name: string, press: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.textContent = name;
  made.onclick = press;
  return made;
}
