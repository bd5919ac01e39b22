/**
 * Replays recorded answers through real gateways: unbroken, where the client must get the same bytes after one request, and cut at every
 * event, where the readers and the judge of the fuzzer say what the client got.
 */
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { startGateway } from '@breakfall/gateway'
import { HOLDS, type ProfileName } from '@breakfall/model'
import { modelRoute } from '../../packages/gateway/src/paths.ts'
import { apiOf } from '../fuzz/apis.ts'
import { type Case, type Frame, PLAIN, type Style } from '../fuzz/case.ts'
import { Client } from '../fuzz/client.ts'
import { objectIn, parsed } from '../fuzz/json.ts'
import { framesOf } from '../fuzz/oracle.ts'
import { Rig } from '../fuzz/rig.ts'
import { encoded } from '../fuzz/wire.ts'
import type { Recording } from './read.ts'

export type Counts = {
  /** Answers of an API that the gateway heals, streamed or in one piece; all others are left out. */
  recordings: number
  streams: number
  leftOut: number
  /** Unbroken: how often the client got the same bytes, and only the same events, after one request. */
  unbroken: number
  sameBytes: number
  sameEvents: number
  cuts: number
  identical: number
  visibleEnds: number
  /** Identical but for token counts that the client did not ask for: the cut was between the proof and them. */
  withoutUsage: number
  /** Cut recordings whose own frames the reference reader does not accept. */
  notJudged: number
  lostSignatures: number
  wrong: readonly string[]
}

export async function replayAll(
  recordings: readonly Recording[],
  told: (line: string) => void = () => undefined,
): Promise<Counts> {
  const wrong: string[] = []
  const counts = {
    recordings: 0,
    streams: 0,
    leftOut: 0,
    unbroken: 0,
    sameBytes: 0,
    sameEvents: 0,
    cuts: 0,
    identical: 0,
    visibleEnds: 0,
    withoutUsage: 0,
    notJudged: 0,
    lostSignatures: 0,
    wrong,
  }
  await using rig = await Rig.start()
  using stage = await Stage.open()
  for (const recording of recordings) {
    const made = caseOf(recording)
    if (made === undefined) {
      counts.leftOut++
      continue
    }
    counts.recordings++
    await unbroken(stage, recording, made, counts, wrong)
    if (made.attempts[0]?.frames.length === 0) continue
    counts.streams++
    await cut(rig, recording, made, counts, wrong)
    told(`${recording.name}: ${made.attempts[0]?.frames.length} events`)
  }
  return counts
}

// ---- details ----

type Tally = { -readonly [Name in keyof Omit<Counts, 'wrong'>]: number }

const PROFILES: readonly (readonly [host: RegExp, profile: ProfileName])[] = [
  [/api\.openai\.com$/, 'openai'],
  [/\.azure\.com$/, 'azure'],
  [/anthropic\.com$/, 'anthropic'],
  [/openrouter\.ai$/, 'openrouter'],
]

const profileOf = ({ url }: Recording): ProfileName =>
  PROFILES.find(([host]) => host.test(url.hostname))?.[1] ?? 'generic'

/** The request as an agent sends it to the gateway, and the frames of the answer. Undefined if it is not an API that is healed. */
function caseOf(recording: Recording): Case | undefined {
  const { url, asked, type, body } = recording
  const route = [url.pathname, `/v1${/\/(?:chat\/completions|responses|messages)$/.exec(url.pathname)?.[0] ?? ''}`]
    .map((path) => ({ path, api: modelRoute(path)?.api }))
    .find(({ api }) => api !== undefined)
  if (route?.api === undefined) return undefined
  const { shape } = apiOf(route.api)
  const isStream = /event-stream|eventstream|ndjson/.test(type)
  const style: Style = shape === undefined ? PLAIN : { ...PLAIN, shape }
  const made: Case = {
    api: route.api,
    setting: { hold: 'none' },
    path: route.path + url.search,
    body: bodyIn(asked),
    attempts: [],
  }
  const reply = { status: 200, headers: {}, body, isWhole: true, isHung: false }
  const frames = isStream ? (framesOf({ ...made, path: `${route.path}?alt=sse` }, reply) ?? []) : []
  return { ...made, attempts: [{ frames, style }] }
}

function bodyIn(asked: string): Case['body'] {
  try {
    return parsed(asked)
  } catch {
    return {}
  }
}

/** An upstream that sends recorded bytes, in one read or in several. */
class Stage implements Disposable {
  readonly client = new Client()
  readonly #server: Server
  next: { readonly type: string; readonly body: Buffer; readonly reads: number } = {
    type: '',
    body: Buffer.alloc(0),
    reads: 1,
  }
  readonly asked: string[] = []

  static async open(): Promise<Stage> {
    const stage = new Stage()
    await once(stage.#server.listen(0, '127.0.0.1'), 'listening')
    return stage
  }

  private constructor() {
    this.#server = createServer((req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', () => {
        this.asked.push(Buffer.concat(chunks).toString())
        const { type, body, reads } = this.next
        res.writeHead(200, { 'content-type': type })
        const size = Math.ceil(body.length / reads)
        const write = (at: number): void => {
          if (at >= body.length) res.end()
          else res.write(body.subarray(at, at + size), () => setImmediate(write, at + size))
        }
        write(0)
      })
    })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  [Symbol.dispose](): void {
    this.client.close()
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

async function unbroken(stage: Stage, recording: Recording, made: Case, counts: Tally, wrong: string[]): Promise<void> {
  const { type, body, asked, name } = recording
  for (const hold of HOLDS) {
    const gateway = await startGateway({
      upstream: { url: `${stage.url}/v1`, profile: profileOf(recording) },
      hold,
      logger: false,
      policy: { backoffMs: 1, patienceMs: 0 },
      limits: { closeMs: 50, pingMs: 60_000 },
    })
    for (const reads of [1, 7]) {
      stage.next = { type, body, reads }
      stage.asked.length = 0
      const reply = await stage.client.ask(gateway.port, made.path, asked, {})
      counts.unbroken++
      const isOnce = stage.asked.length === 1 && stage.asked[0] === asked
      if (isOnce && reply.isWhole && reply.body.equals(body)) counts.sameBytes++
      else if (isOnce && reply.isWhole && isSame(framesOf(made, reply) ?? [], made.attempts[0]?.frames ?? []))
        counts.sameEvents++
      else
        wrong.push(
          `${name}: unbroken, hold ${hold}: status ${reply.status} after ${stage.asked.length} requests: ${reply.body.toString().slice(0, 200)}`,
        )
    }
    await gateway.close()
  }
}

const asksForUsage = ({ api, body }: Case): boolean =>
  api !== 'openai-chat' || objectIn(body, 'stream_options')['include_usage'] === true

const isSame = (one: readonly Frame[], other: readonly Frame[]): boolean =>
  one.length > 0 && JSON.stringify(one) === JSON.stringify(other)

async function cut(rig: Rig, recording: Recording, made: Case, counts: Tally, wrong: string[]): Promise<void> {
  const [whole] = made.attempts
  if (whole === undefined) return
  const api = apiOf(made.api)
  const truth = api.read(whole.frames)
  const { starts } = encoded(whole.frames, whole.style)
  for (const hold of HOLDS)
    for (const at of starts) {
      if (truth.problems.length > 0 || !truth.isProven) {
        counts.notJudged++
        continue
      }
      const run = await rig.run({
        ...made,
        setting: { hold, profile: profileOf(recording) },
        attempts: [{ ...whole, cut: { how: 'fin', at } }, whole],
      })
      counts.cuts++
      const { end, wrong: found } = run.verdict
      if (found?.kind === 'signature lost') counts.lostSignatures++
      if (found?.kind === 'usage lost' && !asksForUsage(made)) counts.withoutUsage++
      else if (found !== undefined)
        wrong.push(`${recording.name}: cut at byte ${at}, hold ${hold}: ${found.kind}: ${found.detail.slice(0, 300)}`)
      else if (end === 'accepted' || end === 'healed') counts.identical++
      else counts.visibleEnds++
    }
}
