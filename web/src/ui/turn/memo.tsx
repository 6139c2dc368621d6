import { Component, type ComponentChildren, type ComponentType, h } from "preact";
import { useReducer } from "preact/hooks";

type Props = Readonly<Record<string, unknown>>;

/** Return true if two objects have identical values under the same keys. */
function sameProps(before: Props, after: Props): boolean {
  const keys = Object.keys(after);
  return keys.length === Object.keys(before).length && keys.every((key) => Object.is(before[key], after[key]));
}

/**
 * A component that renders again only when one of its props has changed: equal values of a thread are the same object.
 */
export function memo<P extends object>(draw: (props: P) => ComponentChildren): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !sameProps(this.props as Props, next as Props);
    }

    override render() {
      return h(draw as ComponentType<P>, this.props as P);
    }
  };
}

/** A function that renders the calling component again. */
export function useRedraw(): () => void {
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  return redraw as () => void;
}
