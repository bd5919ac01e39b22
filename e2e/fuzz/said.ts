/** What a stream says to its reader, in one form for all APIs. Each API's reference reader makes one. */
import { merged, type Piece } from './answer.ts'

/** An item as its API has it, for what has no common form. */
export type SaidItem = {
  readonly kind: 'item'
  readonly id: string
  readonly json: string
  /** It was closed before it was complete. */
  readonly isCut?: boolean
}

export type SaidPiece = (Piece | SaidItem) & { readonly lane: number }

/** A signature and the place where it was read: how much came before it. */
export type Signature = { readonly at: string; readonly value: string }

export type Said = {
  /** Neighbouring texts joined, signatures of texts left out. */
  readonly pieces: readonly SaidPiece[]
  readonly signatures: readonly Signature[]
  /** Per choice; null without one. */
  readonly finish: readonly unknown[]
  readonly usage: unknown
  /** The model said that it is done: nothing of what it says is missing. */
  readonly isProven: boolean
  /** The protocol's own sign that this is all. */
  readonly isComplete: boolean
  /** The stream ended with an error that clients understand. */
  readonly isError: boolean
  /** What no stream may do, whatever it says. */
  readonly problems: readonly string[]
}

/** Whether the answer that was cut off agrees with the whole one, as far as it goes. */
export function isBeginning(part: Said, whole: Said): boolean {
  const lanes = new Set(part.pieces.map(({ lane }) => lane))
  return [...lanes].every((lane) =>
    (['text', 'refusal'] as const).every((kind) => textOf(whole, kind, lane).startsWith(textOf(part, kind, lane))),
  )
}

export const textOf = ({ pieces }: Said, kind: Piece['kind'], lane: number): string =>
  pieces
    .flatMap((piece) => (piece.kind === kind && piece.lane === lane && 'text' in piece ? [piece.text] : []))
    .join('')

/** Collects pieces and signatures in the order in which they are read. */
export class SaidPieces {
  readonly #lanes = new Map<number, { pieces: Piece[]; size: number }>()
  readonly signatures: Signature[] = []

  text(lane: number, kind: 'text' | 'thought' | 'refusal', text: string): void {
    const own = this.#lane(lane)
    if (text !== '') own.pieces.push({ kind, text })
    own.size += text.length
  }

  call(lane: number, id: string, name: string, args: string): void {
    const own = this.#lane(lane)
    own.pieces.push({ kind: 'call', id, name, args })
    own.size += 1
  }

  /** The arguments of the call that came last. */
  completeCall(lane: number, args: string): void {
    const { pieces } = this.#lane(lane)
    const last = pieces.pop()
    if (last !== undefined) pieces.push(last.kind === 'call' ? { ...last, args } : last)
  }

  opaque(lane: number, id: string): void {
    this.#lane(lane).pieces.push({ kind: 'opaque', id })
  }

  sign(lane: number, value: string): void {
    this.signatures.push({ at: `${lane}:${this.#lane(lane).size}`, value })
  }

  /** Where clients put text of one kind together, whatever comes between, its place among the others means nothing. */
  all(order?: readonly Piece['kind'][]): readonly SaidPiece[] {
    return [...this.#lanes]
      .toSorted(([a], [b]) => a - b)
      .flatMap(([lane, { pieces }]) => {
        const sorted =
          order === undefined ? pieces : order.flatMap((kind) => pieces.filter((piece) => piece.kind === kind))
        return merged(sorted).map((piece) => ({ ...piece, lane }))
      })
  }

  #lane(lane: number): { pieces: Piece[]; size: number } {
    const known = this.#lanes.get(lane)
    if (known !== undefined) return known
    const made = { pieces: [], size: 0 }
    this.#lanes.set(lane, made)
    return made
  }
}
