/** Answers as a model means them, the same for every API: made at random, and changed as another attempt might change them. */
import { type Dice, times } from './dice.ts'

export type Text = { readonly kind: 'text' | 'thought' | 'refusal'; readonly text: string; readonly signature?: string }
export type Call = {
  readonly kind: 'call'
  readonly id: string
  readonly name: string
  readonly args: string
  readonly signature?: string
}
/** Something that no reader looks into: redacted thoughts, a search. */
export type Opaque = { readonly kind: 'opaque'; readonly id: string }
export type Piece = Text | Call | Opaque

/** One choice. `isShort`: the token limit ended it. */
export type Lane = { readonly pieces: readonly Piece[]; readonly isShort: boolean }

export type Answer = { readonly lanes: readonly Lane[]; readonly usage: readonly [input: number, output: number] }

/** What an API can say. The first kind is the most likely. */
export type Abilities = {
  readonly kinds: readonly Piece['kind'][]
  readonly lanesMax: number
  /** Kinds that carry a signature, sometimes. */
  readonly signed: readonly Piece['kind'][]
}

export function makeAnswer(dice: Dice, abilities: Abilities): Answer {
  const lanes = dice.chance('several choices', 6) ? abilities.lanesMax : 1
  return {
    lanes: times(lanes, (at) => makeLane(dice.in(`choice ${at}`), abilities)),
    usage: [7, 1 + dice.int('output', 90)],
  }
}

/** How another attempt answers. The first is the most likely. */
export function makeRetry(dice: Dice, first: Answer, abilities: Abilities): Answer {
  const how = dice.int('how', 100)
  if (how < 62) return { ...first, lanes: first.lanes.map((lane, at) => resigned(dice.in(`signed ${at}`), lane)) }
  if (how < 68) return { ...first, lanes: first.lanes.map((_, at) => makeLane(dice.in(`another ${at}`), abilities)) }
  const lanes = first.lanes.map((lane, at) => changedLane(dice.in(`choice ${at}`), how, lane, abilities))
  return { ...first, lanes }
}

export const isText = (piece: Piece): piece is Text =>
  piece.kind === 'text' || piece.kind === 'thought' || piece.kind === 'refusal'

export const hasCalls = ({ pieces }: Lane): boolean => pieces.some(({ kind }) => kind === 'call')

/** The text in pieces, as a server may stream it. Never inside a character. */
export function split(dice: Dice, text: string): readonly string[] {
  if (text === '') return []
  switch (dice.one('how', ['whole', 'words', 'words', 'anywhere', 'anywhere', 'characters'] as const)) {
    case 'whole':
      return [text]
    case 'words':
      return text.match(/\s*\S+\s*$|\s*\S+|\s+/g) ?? [text]
    case 'characters':
      return Array.from(text)
    case 'anywhere': {
      const pieces: string[] = ['']
      for (const [at, character] of Array.from(text).entries()) {
        pieces.push((pieces.pop() ?? '') + character)
        if (dice.int(at, 4) === 3) pieces.push('')
      }
      return pieces.filter((piece) => piece !== '')
    }
  }
}

// ---- details ----

const ODD = [
  'ç',
  '😀',
  '\\"',
  'x\n',
  '"',
  'data:',
  '\u2028',
  '中文字',
  '[DONE]',
  '\\',
  '\t',
  '{"a":1}',
  '</think>',
  '\r\n',
  "it's",
]

export function makeText(dice: Dice): string {
  const count = 1 + (dice.chance('long', 6) ? dice.int('many words', 90) : dice.int('words', 8))
  return times(count, (at) => {
    const word = dice.chance(`odd ${at}`, 20) ? dice.one(`word ${at}`, ODD) : `w${dice.int(`word ${at}`, 60)}`
    return (
      word +
      (at === count - 1 ? dice.one('end', ['.', '', ' ', '!']) : dice.one(`space ${at}`, [' ', ' ', ' ', '', '  ']))
    )
  }).join('')
}

function makeLane(dice: Dice, abilities: Abilities): Lane {
  const count = 1 + dice.int('pieces', 5)
  const pieces = times(count, (at) => makePiece(dice.in(`piece ${at}`), at, abilities))
  return { pieces, isShort: dice.chance('short', 8) }
}

function makePiece(dice: Dice, at: number, { kinds, signed }: Abilities): Piece {
  const kind = dice.one('kind', kinds)
  const isSigned = signed.includes(kind) && dice.chance('is signed', 70)
  const signature = isSigned ? { signature: `sig${dice.int('signature', 1_000)}` } : {}
  if (kind === 'opaque') return { kind, id: `op${at}` }
  if (kind !== 'call') return { kind, text: makeText(dice.in('text')), ...signature }
  const args = times(dice.int('arguments', 4), (arg) => [`k${arg}`, makeText(dice.in(`argument ${arg}`))])
  const id = `call_${at}_${dice.int('id', 1_000)}`
  return {
    kind,
    id,
    name: dice.one('name', ['ls', 'rm', 'read']),
    args: JSON.stringify(Object.fromEntries(args)),
    ...signature,
  }
}

/** The same words with a signature of this attempt. */
function resigned(dice: Dice, lane: Lane): Lane {
  const pieces = lane.pieces.map((piece, at) =>
    piece.kind !== 'opaque' && piece.signature !== undefined
      ? { ...piece, signature: `sig${dice.int(at, 1_000)}` }
      : piece,
  )
  const ids = dice.chance('new ids', 60)
  return {
    ...lane,
    pieces: pieces.map((piece) => (ids && piece.kind === 'call' ? { ...piece, id: `${piece.id}b` } : piece)),
  }
}

function changedLane(dice: Dice, how: number, lane: Lane, abilities: Abilities): Lane {
  const { pieces } = lane
  const at = dice.int('which', pieces.length)
  const piece = pieces[at]
  if (piece === undefined) return lane
  if (how < 76) return { ...lane, pieces: resplit(dice.in('parts'), pieces) }
  if (how < 84 && isText(piece))
    return { ...lane, pieces: pieces.with(at, { ...piece, text: diverged(dice, piece.text) }) }
  if (how < 88) return { ...lane, pieces: pieces.slice(0, at + 1) }
  if (how < 94)
    return { ...lane, isShort: false, pieces: [...pieces, makePiece(dice.in('more'), pieces.length, abilities)] }
  const other = abilities.kinds.flatMap((kind) => (kind === 'call' || kind === 'opaque' ? [] : [kind]))
  if (how < 97 && isText(piece)) {
    const kind = dice.one('kind', other)
    return { ...lane, pieces: pieces.with(at, { kind, text: piece.text }) }
  }
  return { ...lane, pieces: pieces.with(at, makePiece(dice.in('instead'), at, abilities)) }
}

/** The same text in other parts: neighbours joined, or one cut in two. */
function resplit(dice: Dice, pieces: readonly Piece[]): readonly Piece[] {
  if (dice.int('join', 2) === 1) return merged(pieces)
  return pieces.flatMap((piece, at): readonly Piece[] => {
    if (piece.kind !== 'text' && piece.kind !== 'thought') return [piece]
    const characters = Array.from(piece.text)
    const to = dice.int(`cut ${at}`, characters.length)
    const { kind } = piece
    const last = { ...piece, text: characters.slice(to).join('') }
    return to === 0 ? [piece] : [{ kind, text: characters.slice(0, to).join('') }, last]
  })
}

function diverged(dice: Dice, text: string): string {
  const characters = Array.from(text)
  const to = dice.int('after', characters.length + 1)
  return characters.slice(0, to).join('') + dice.one('then', ['X', ' other words', 'é', makeText(dice.in('rest'))])
}

/** Neighbouring texts of one kind are one. */
export function merged(pieces: readonly Piece[]): Piece[] {
  const out: Piece[] = []
  for (const piece of pieces) {
    const last = out.at(-1)
    if (last !== undefined && isText(piece) && isText(last) && last.kind === piece.kind) {
      const { signature = last.signature } = piece
      out[out.length - 1] = {
        kind: piece.kind,
        text: last.text + piece.text,
        ...(signature === undefined ? {} : { signature }),
      }
    } else out.push(piece)
  }
  return out
}
