/** A component that renders again only if its props differ by the given comparison. Preact's own is in its React layer. */
import { Component, type ComponentChildren, type ComponentClass } from 'preact'

export function memo<P extends object>(
  render: (props: P) => ComponentChildren,
  isSame: (a: P, b: P) => boolean,
): ComponentClass<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !isSame(this.props, next)
    }
    override render(): ComponentChildren {
      return render(this.props)
    }
  }
}
