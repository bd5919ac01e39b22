/** Puts pieces of text on the terminal in their tones. */
import type { Output, Style } from './output.ts'
import { withoutControls } from './printable.ts'
import type { Piece } from './turn-view.ts'

const STYLES: Readonly<Record<Piece['tone'], Style | undefined>> = {
  plain: undefined,
  dim: 'dim',
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  head: ['bold', 'cyan'],
}

export function paint(out: Output, pieces: readonly Piece[]): void {
  for (const { kind, tone, text } of pieces) {
    const style = STYLES[tone]
    const clean = withoutControls(text)
    if (kind === 'text') {
      if (style === undefined) out.write(clean)
      else out.flow(style, clean)
      continue
    }
    const words = clean.replace(/^\n+/, '')
    out.write(clean.slice(0, clean.length - words.length)) // colour belongs to words, not to line breaks
    out.line(style === undefined || words === '' ? words : out.style(style, words))
  }
}
