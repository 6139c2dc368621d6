import { Component, type ComponentChildren, type ComponentType, h } from "preact";
import { useReducer } from "preact/hooks";

type Props = Readonly<Record<string, unknown>>;

/** Tell whether two objects have the same values under the same keys, by identity. */
function sameProps(before: Props, after: Props): boolean {
  const keys = Object.keys(after);
  return keys.length === Object.keys(before).length && keys.every((key) => Object.is(before[key], after[key]));
}

/** A component that redraws only when one of its props is another one: values of a thread are shared as long as they are the same. */
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

/** A function that redraws the component which asks for it. */
export function useRedraw(): () => void {
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  return redraw as () => void;
}
