/**
 * The repairs of one request at one server: what it is sent instead of the client's body, and why.
 *
 * I1  At most three repairs, and each cause once; two have a second way.
 * I2  A repair that is known from an earlier request is taken back at the first refusal: then the client's own body is sent, and judged.
 */
import { type HistoryCause, historyRefusal, isHistoryStatus } from '@breakfall/faults/internal'
import { type MemoryShare, unboundedShare } from '@breakfall/wire/node'
import type { RelayApiName } from '../contract/names.ts'
import { JsonFields } from '../lib/json-fields.ts'
import { between, spliced } from '../lib/spliced.ts'
import type { Conversations, KnownRepair } from './conversations.ts'
import type { Told } from './grammar.ts'
import { type History, historyIn, LIST_OF } from './history.ts'
import { type Edit, Unreadable } from './json-spans.ts'
import { type Repair, repairOf } from './repair.ts'

/** A repair in a report. */
export type RepairNote = {
  readonly cause: HistoryCause
  /** `messages.12`: the first element that was wrong, as the client counts them. */
  readonly place: string
  /** It is known from an earlier request of the conversation, so the server did not have to refuse this one. */
  readonly isKnown: boolean
}

export const REPAIR_LIMITS = {
  repairsMax: 3, // servers report one defect at a time
  bodyBytesMax: 32 * 1024 * 1024, // what Anthropic takes at most; read in one go
} as const

export type RepairOptions = {
  readonly api: RelayApiName
  /** The server and the model: each has its own rules. */
  readonly key: string
  readonly conversations: Conversations
  /** For what the repaired body has more than the client's. */
  readonly memory: MemoryShare
}

export class RequestRepair {
  readonly #options: RepairOptions
  readonly #client: readonly Buffer[]
  #body: readonly Buffer[]
  #known: KnownRepair | undefined
  #told: Told[] = []
  #notes: RepairNote[] = []
  #edits: readonly Edit[] = []
  #listFrom: number | undefined

  constructor(client: readonly Buffer[], options: RepairOptions) {
    this.#options = options
    this.#client = client
    this.#body = client
    this.#remember()
  }

  /** What is sent now: the client's own bytes if nothing was repaired. */
  get body(): readonly Buffer[] {
    return this.#body
  }

  get notes(): readonly RepairNote[] {
    return this.#notes
  }

  /** The repair is known from an earlier request of the conversation. */
  get isKnown(): boolean {
    return this.#known !== undefined
  }

  /**
   * The server refused the body. True if there is another one to send, or the same one once more. `body`: parsed JSON of the refusal, or text.
   */
  refused(status: number, body: unknown): boolean {
    if (this.#known !== undefined) return this.#takeBack() // I2
    const refusal = historyRefusal(body)
    if (refusal === undefined || !isHistoryStatus(status, refusal.cause)) return false
    const times = this.#told.filter(({ cause }) => cause === refusal.cause).length
    if (this.#told.length >= REPAIR_LIMITS.repairsMax || times >= (TWICE.has(refusal.cause) ? 2 : 1)) return false // I1
    const told = [...this.#told, { ...refusal, times }]
    const repair = this.#planned(told)
    if (repair === undefined) return false
    this.#told = told
    if (repair.edits.length > 0)
      this.#notes = [...this.#notes, { cause: repair.cause, place: repair.place, isKnown: false }]
    return true
  }

  /** The server took what was sent. The next requests of this conversation are repaired in the same way. False if they cannot be. */
  taken(): boolean {
    const { conversations, key } = this.#options
    const [first] = this.#notes
    const from = this.#listFrom
    if (this.#known !== undefined || first === undefined || from === undefined) return false
    const causes = this.#notes.map(({ cause }) => cause)
    const edits = this.#edits.map(({ from: at, to, text }) => ({ from: at - from, to: to - from, text }))
    if (edits.some(({ from: at }) => at < 0) || causes.some((cause) => ONCE_ONLY.has(cause))) return false
    return conversations.keep(key, between(this.#client, from, Number.POSITIVE_INFINITY), {
      causes,
      place: first.place,
      edits,
    })
  }

  // ---- details ----

  #remember(): void {
    const { api, key, conversations } = this.#options
    if (!conversations.mayKnow(key)) return
    const from = listIn(api, this.#client)
    if (from === undefined) return
    const known = conversations.find(key, between(this.#client, from, Number.POSITIVE_INFINITY))
    if (known === undefined) return
    const edits = known.edits.map(({ from: at, to, text }) => ({ from: at + from, to: to + from, text }))
    const body = this.#edited(edits)
    if (body === undefined) return
    this.#known = known
    this.#body = body
    this.#notes = known.causes.map((cause) => ({ cause, place: known.place, isKnown: true }))
  }

  #takeBack(): boolean {
    if (this.#known !== undefined) this.#options.conversations.forget(this.#known)
    this.#known = undefined
    this.#body = this.#client
    this.#notes = []
    return true
  }

  /** All repairs again, from the client's body: the edits are in places of that one. */
  #planned(told: readonly Told[]): Repair | undefined {
    const { api } = this.#options
    if (this.#client.reduce((sum, { length }) => sum + length, 0) > REPAIR_LIMITS.bodyBytesMax) return undefined
    try {
      let history: History = historyIn(api, this.#client.map((block) => block.toString('latin1')).join(''))
      let repair: Repair | undefined
      for (const one of told) {
        repair = repairOf(history, one)
        if (repair === undefined) return undefined
        ;({ history } = repair)
      }
      const body = repair === undefined ? undefined : this.#edited(repair.edits)
      if (repair === undefined || body === undefined) return undefined
      this.#body = body
      this.#edits = repair.edits
      this.#listFrom = history.list.from + 1
      return repair
    } catch (thrown) {
      if (thrown instanceof Unreadable) return undefined // what cannot be read for certain is left to the server
      throw thrown
    }
  }

  #edited(edits: readonly Edit[]): readonly Buffer[] | undefined {
    if (edits.length === 0) return this.#body
    if (!this.#options.memory.take(edits.reduce((sum, { text }) => sum + text.length, 0))) return undefined
    const splices = edits.map(({ from, to, text }) => ({ from, to, bytes: Buffer.from(text, 'latin1') }))
    return spliced(this.#client, splices)
  }
}

// ---- details ----

/** The second time is done differently. */
const TWICE: ReadonlySet<HistoryCause> = new Set(['thinking_missing', 'thought_signature_invalid'])
/** Of one request, not of its conversation. */
const ONCE_ONLY: ReadonlySet<HistoryCause> = new Set(['thinking_required'])

/** Where the elements of the conversation begin. */
function listIn(api: RelayApiName, blocks: readonly Buffer[]): number | undefined {
  const name = LIST_OF[api]
  if (name === undefined) return undefined
  const fields = new JsonFields(new Map([[name, {}]]), unboundedShare())
  for (const block of blocks) fields.push(block)
  const place = fields.done()?.places.get(name)
  return place === undefined ? undefined : place.from + 1
}
