/**
 * Terminal output to lines of styled spans. Colours and weights become classes; every other escape sequence is dropped, links
 * and clipboard writes (OSC 8 and 52) too. A carriage return overwrites its line, as in a terminal.
 */
import { printable } from './reveal.ts'

export type Styled = { readonly text: string; readonly style: string }
export type Line = { readonly spans: readonly Styled[]; readonly cut: number }

const LINE_CHARS_MAX = 4_096

/** Styles carry over from line to line, so the lines of one output are parsed together. */
export function ansiLines(text: string): readonly Line[] {
  let style: Style = {}
  return text.split('\n').map((line) => {
    const parsed = parseLine(line.endsWith('\r') ? line.slice(0, -1) : line, style)
    ;({ style } = parsed)
    return { spans: parsed.spans, cut: parsed.cut }
  })
}

/** Without styles and escapes: for copying, and for search. */
export const plainOutput = (text: string): string =>
  ansiLines(text)
    .map(({ spans }) => spans.map((span) => span.text).join(''))
    .join('\n')

// ---- details, in the order they are used above ----

type Style = {
  readonly bold?: boolean
  readonly dim?: boolean
  readonly underline?: boolean
  readonly colour?: number | undefined
}

// CSI … final byte; OSC/DCS/APC/PM/SOS … BEL or ST; other two-byte escapes.
const ESC = String.fromCharCode(0x1b)
const CSI = String.fromCharCode(0x9b)
const BELL = String.fromCharCode(0x07)
const ESCAPE = new RegExp(
  [
    String.raw`${ESC}\[([0-?]*)[ -/]*([@-~])`,
    String.raw`${ESC}[\]PX^_][\s\S]*?(?:${BELL}|${ESC}\\|$)`,
    String.raw`${ESC}[ -/]*[0-~]?`,
    String.raw`${CSI}[0-?]*[ -/]*[@-~]`,
  ].join('|'),
  'g',
)

function parseLine(line: string, from: Style): { spans: readonly Styled[]; style: Style; cut: number } {
  const cut = Math.max(0, line.length - LINE_CHARS_MAX)
  const kept = cut === 0 ? line : line.slice(0, LINE_CHARS_MAX).toWellFormed()
  let style = from
  let head: Styled[] = [] // before the cursor
  let tail: readonly Styled[] = [] // what a carriage return left behind it
  let at = 0
  const write = (text: string): void => {
    for (const [index, piece] of text.split('\r').entries()) {
      if (index > 0) [head, tail] = [[], [...head, ...tail]]
      if (piece === '') continue
      head.push({ text: printable(piece), style: classOf(style) })
      tail = withoutFirst(tail, piece.length)
    }
  }
  for (const match of kept.matchAll(ESCAPE)) {
    write(kept.slice(at, match.index))
    at = match.index + match[0].length
    if (match[2] === 'm') style = styled(style, match[1] ?? '')
  }
  write(kept.slice(at))
  return { spans: [...head, ...tail], style, cut }
}

function withoutFirst(cells: readonly Styled[], chars: number): readonly Styled[] {
  let skip = chars
  return cells.flatMap((cell) => {
    const gone = Math.min(skip, cell.text.length)
    skip -= gone
    return gone === cell.text.length ? [] : [{ ...cell, text: cell.text.slice(gone) }]
  })
}

function styled(style: Style, codes: string): Style {
  const list = codes.split(/[;:]/).map(Number)
  let next = style
  for (let i = 0; i < list.length; i += 1) {
    const code = list[i] ?? 0
    if (code === 0) next = {}
    else if (code === 1) next = { ...next, bold: true }
    else if (code === 2) next = { ...next, dim: true }
    else if (code === 4) next = { ...next, underline: true }
    else if (code === 22) next = { ...next, bold: false, dim: false }
    else if (code === 24) next = { ...next, underline: false }
    else if (code >= 30 && code <= 37) next = { ...next, colour: code - 30 }
    else if (code >= 90 && code <= 97) next = { ...next, colour: code - 90 }
    else if (code === 39) next = { ...next, colour: undefined }
    else if (code === 38 || code === 48) i += list[i + 1] === 5 ? 2 : 4 // 256 colours and RGB: shown plain
  }
  return next
}

const classOf = ({ bold, dim, underline, colour }: Style): string =>
  [bold && 'b', dim && 'dim', underline && 'u', colour !== undefined && `c${colour}`].filter(Boolean).join(' ')
