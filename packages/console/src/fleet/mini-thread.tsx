/** A whole turn in a few pixels: a block a step, a tick a fault, a hatch a park, dots a lost daemon. */
import type { VNode } from 'preact'
import { counted } from '../text/format.ts'

const CLASSES: Readonly<Record<string, string>> = { x: 'x', p: 'p', k: 'k', '?': 'q' }

export function MiniThread({ marks }: { readonly marks: string }): VNode | null {
  if (marks === '') return null
  const shown = marks.slice(-48)
  const faults = marks.split('').filter((mark) => mark !== '-').length
  const name = `Thread: ${counted(marks.length - faults, 'step')}, ${counted(faults, 'fault')}`
  return (
    <span class="marks" role="img" aria-label={name}>
      {shown.split('').map((mark, index) => (
        <i key={index} class={CLASSES[mark] ?? ''} />
      ))}
    </span>
  )
}
