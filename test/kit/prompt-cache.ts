/**
 * Counts input as Anthropic's prompt cache does: what it had, what it takes in, and the rest. A request marks up to four blocks. Its
 * beginning up to a mark is written; it is found again by an identical beginning that ends at most twenty blocks before a mark.
 */
import { createHash } from 'node:crypto'

export type CountedInput = { readonly fresh: number; readonly read: number; readonly written: number }

type Block = { readonly hash: string; readonly tokens: number; readonly isMarked: boolean }

const MARKS_MAX = 4
const LOOK_BACK = 20 // blocks
const TOKENS_MIN = 1_024 // shorter beginnings are not cached
const BYTES_PER_TOKEN = 4

export class PromptCache {
  readonly #written = new Set<string>()

  /** Throws for a request that the API would refuse. */
  count(body: Readonly<Record<string, unknown>>): CountedInput {
    const blocks = blocksOf(body)
    const marks = blocks.flatMap(({ isMarked }, at) => (isMarked ? [at] : []))
    if (marks.length > MARKS_MAX) throw new Error(`${marks.length} blocks are marked, and at most ${MARKS_MAX} may be`)
    const ends = blocks.map(
      ({ tokens }, at) => tokens + blocks.slice(0, at).reduce((sum, before) => sum + before.tokens, 0),
    )
    const total = ends.at(-1) ?? 0
    const usable = marks.filter((at) => (ends[at] ?? 0) >= TOKENS_MIN)
    const found = usable.flatMap((mark) => {
      for (let at = mark; at >= 0 && at > mark - LOOK_BACK; at -= 1)
        if (this.#written.has(blocks[at]?.hash ?? '')) return [ends[at] ?? 0]
      return []
    })
    const read = Math.max(0, ...found)
    const written = Math.max(read, ...usable.map((at) => ends[at] ?? 0)) - read
    for (const at of usable) this.#written.add(blocks[at]?.hash ?? '')
    return { fresh: total - read - written, read, written }
  }
}

/** How a message of that API says it. */
export const usageFields = ({ fresh, read, written }: CountedInput): Record<string, number> => ({
  input_tokens: fresh,
  cache_read_input_tokens: read,
  cache_creation_input_tokens: written,
})

// ---- details ----

function blocksOf({ model, tools, system, messages }: Readonly<Record<string, unknown>>): readonly Block[] {
  const listed = (value: unknown): readonly unknown[] =>
    Array.isArray(value) ? value : value === undefined ? [] : [value]
  const all = [
    ...listed(tools).map((tool) => ['tool', tool]),
    ...listed(system).map((text) => ['system', text]),
    ...listed(messages).flatMap((message) => {
      const { role, content } = message as { role: string; content: unknown }
      return listed(content).map((block) => [role, block])
    }),
  ]
  const hash = createHash('sha256').update(String(model))
  return all.map(([kind, block]) => {
    const { cache_control: mark, ...rest } =
      typeof block === 'string' ? { text: block } : (block as Record<string, unknown>)
    const json = JSON.stringify([kind, rest])
    return {
      hash: hash.update(json).copy().digest('hex'),
      tokens: Math.ceil(Buffer.byteLength(json) / BYTES_PER_TOKEN),
      isMarked: mark !== undefined,
    }
  })
}
