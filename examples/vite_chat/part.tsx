import { type DynamicToolUIPart, getToolName, isToolUIPart, type UIMessage } from "ai";

type Answer = (answer: { id: string; approved: boolean; reason?: string }) => unknown;
type PartProps = { part: UIMessage["parts"][number]; open: (address: string) => unknown; answer: Answer };

/** A part of a message: a text, a thought, a file, a source, a plan, or a call of a tool. */
export function Part({ part, open, answer }: PartProps) {
  if (isToolUIPart(part)) return <Call part={part as DynamicToolUIPart} answer={answer} />;
  switch (part.type) {
    case "text":
      return <p>{part.text}</p>;
    case "reasoning":
      return <details>{part.text}</details>;
    case "steering-message":
      return <blockquote>{part.parts.map((one) => (one.type === "text" ? one.text : ""))}</blockquote>;
    case "file":
      return (
        <button type="button" onClick={() => open(part.url)}>
          {part.filename ?? part.url.split("/").at(-1)}
        </button>
      );
    case "source-url":
      return (
        <a href={part.url} rel="noopener noreferrer">
          {part.title}
        </a>
      );
    case "source-document":
      return <cite>{part.title}</cite>;
    case "data-stepline-plan":
      return (
        <ol>
          {(part.data as { steps: string[] }).steps.map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ol>
      );
    default:
      return null;
  }
}

/** A call, with two buttons while it waits for an approval. */
function Call({ part, answer }: { part: DynamicToolUIPart; answer: Answer }) {
  const { approval } = part;
  return (
    <section data-state={part.state}>
      {getToolName(part)} {JSON.stringify(part.input)}
      {part.state === "approval-requested" && approval && (
        <>
          <button onClick={() => answer({ id: approval.id, approved: true })}>Approve</button>
          <button onClick={() => answer({ id: approval.id, approved: false, reason: "Not now." })}>Deny</button>
        </>
      )}
    </section>
  );
}
