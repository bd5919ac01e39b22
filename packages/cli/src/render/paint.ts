/** Writes segments of text to the terminal, each in its tone. */
import type { Output, Style } from '../terminal/output.ts'
import { withoutControls } from '../text/printable.ts'
import type { Segment } from './turn-view.ts'

const STYLES: Readonly<Record<Segment['tone'], Style | undefined>> = {
  plain: undefined,
  dim: 'dim',
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  head: ['bold', 'cyan'],
}

export function paint(out: Output, segments: readonly Segment[]): void {
  for (const { kind, tone, text } of segments) {
    const style = STYLES[tone]
    const clean = withoutControls(text)
    if (kind === 'text') {
      if (style === undefined) out.write(clean)
      else out.stream(style, clean)
      continue
    }
    const line = clean.replace(/^\n+/, '')
    out.write(clean.slice(0, clean.length - line.length)) // line breaks are not coloured
    out.line(style === undefined || line === '' ? line : out.style(style, line))
  }
}
