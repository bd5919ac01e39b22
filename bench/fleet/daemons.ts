/**
 * Whole daemons on one PostgreSQL, as a client sees them: turns per second with one, two and three of them, how far a reader at another
 * daemon is behind a reader at the owner, and how long turns stand still when their daemon is stopped or killed.
 */
import { isTerminal, type Session } from '@breakfall/wire'
import pg from 'pg'
import { type FleetDaemon, FleetRig } from '../../e2e/fleet/rig.ts'
import type { Cluster } from '../../test/kit/postgres-cluster.ts'
import { TcpProxy } from '../../test/kit/tcp-proxy.ts'
import { eventually } from '../../test/kit/wait.ts'

export type Sizes = {
  /** How long turns are counted for each number of daemons. */
  readonly growthMs: number
  /** How long the answers are whose tails are compared. */
  readonly answerMs: number
  readonly handOvers: number
  /** For each lease, how many daemons are killed. */
  readonly kills: readonly { readonly leaseMs: number; readonly times: number }[]
}

/** Turns that one daemon works on while it is watched, stopped or killed. Few enough that it keeps all of them. */
export const TURNS = 8
/** Shared by the daemons: 24, 12 or 8 for each. */
export const CLIENTS = 24

export type Growth = { readonly daemons: number; readonly turnsPerSecond: number; readonly eventsPerSecond: number }
/** `ms`: by how much each event came later than at the owner. */
export type Tail = { readonly name: string; readonly ms: readonly number[] }
/** `ms`: how long each turn stood still. `exitMs`: until the daemon's process had ended. */
export type Stopped = { readonly ms: readonly number[]; readonly exitMs: number }
export type Takeover = { readonly leaseMs: number; readonly ms: readonly number[] }

export type FleetNumbers = {
  readonly growth: readonly Growth[]
  readonly tails: readonly Tail[]
  readonly handOvers: readonly Stopped[]
  readonly takeovers: readonly Takeover[]
}

export async function measureDaemons(cluster: Cluster, sizes: Sizes): Promise<FleetNumbers> {
  const url = await newDatabase(cluster)
  const never = Promise.withResolvers<void>()
  const pieces = Math.round(sizes.answerMs / PIECE_MS)
  await using rig = await FleetRig.start(
    ({ messages }) => {
      const prompt = messages.findLast((message) => message.role === 'user')?.content
      if (prompt === 'wait') return { text: 'late', until: never.promise }
      if (prompt === 'stream') return { text: 'ten chars '.repeat(pieces), pieceChars: 10, pauseMs: PIECE_MS }
      return { text: 'ten chars '.repeat(20), pieceChars: 10 }
    },
    Promise.resolve({ url, query: () => Promise.resolve([]), close: () => Promise.resolve() }),
  )
  const hintsUrl = new URL(url)
  await using toHints = await TcpProxy.start(cluster.port)
  hintsUrl.port = String(toHints.port)

  const start = (name: string, leaseMs: number): Promise<FleetDaemon> =>
    rig.daemon(name, ['--lease-ms', String(leaseMs), ...(name === 'b' ? ['--hints-url', hintsUrl.href] : [])])
  let running = await Promise.all(NAMES.map((name) => start(name, LEASE_MS)))
  await grown(running, sizes.growthMs) // warms up
  const growth: Growth[] = []
  for (let count = NAMES.length; count > 0; count -= 1) {
    growth.unshift(await grown(running.slice(0, count), sizes.growthMs))
    await running[count - 1]?.program.stop() // an idle one would take a part of the work
  }
  running = await Promise.all(NAMES.map((name) => start(name, LEASE_MS)))
  const tails = await tailsOf(running, toHints)
  const handOvers: Stopped[] = []
  for (let n = 0; n < sizes.handOvers; n += 1) {
    handOvers.push(await stopped(running, 'SIGTERM', 'resumed'))
    running = [...running.slice(0, -1), await start('c', LEASE_MS)]
  }
  const takeovers: Takeover[] = []
  for (const { leaseMs, times } of sizes.kills) {
    await Promise.all(running.map(({ program }) => program.stop()))
    running = await Promise.all(NAMES.map((name) => start(name, leaseMs)))
    const ms: number[] = []
    for (let n = 0; n < times; n += 1) {
      ms.push(...(await stopped(running, 'SIGKILL', 'taken-over')).ms)
      running = [...running.slice(0, -1), await start('c', leaseMs)]
    }
    takeovers.push({ leaseMs, ms })
  }
  return { growth, tails, handOvers, takeovers }
}

// ---- details, in the order they are used above ----

const NAMES = ['a', 'b', 'c']
const LEASE_MS = 15_000 // the default
const PIECE_MS = 33
const WAIT_MS = 60_000 // a run that hangs ends

async function newDatabase(cluster: Cluster): Promise<string> {
  const client = new pg.Client({ connectionString: cluster.url() })
  await client.connect()
  await client.query('CREATE DATABASE daemons')
  await client.end()
  return cluster.url('daemons')
}

type Arrival = { readonly seq: number; readonly type: string; readonly at: number }

/** Events as they come, until the first that `isLast` accepts. */
async function arrivals(
  { api }: FleetDaemon,
  sessionId: string,
  isLast: (event: Arrival) => boolean = isTerminal,
  onEvent: (event: Arrival) => void = () => undefined,
): Promise<readonly Arrival[]> {
  const over = new AbortController()
  const seen: Arrival[] = []
  const frames = api.frames(sessionId, 0, AbortSignal.any([over.signal, AbortSignal.timeout(WAIT_MS)]))
  for await (const { event = '', data } of frames) {
    const at = performance.now()
    const { seq }: { seq: number } = JSON.parse(data)
    seen.push({ seq, type: event, at })
    onEvent({ seq, type: event, at })
    if (isLast({ seq, type: event, at })) break
  }
  over.abort()
  return seen
}

/** Short turns, one after another for each client. */
async function grown(daemons: readonly FleetDaemon[], forMs: number): Promise<Growth> {
  let [turnsPerSecond, eventsPerSecond] = [0, 0]
  const work = async (daemon: FleetDaemon | undefined): Promise<void> => {
    if (daemon === undefined) return
    const from = performance.now()
    let [turns, events] = [0, 0]
    while (performance.now() - from < forMs) {
      const { id } = await daemon.api.session()
      await daemon.api.prompt(id, 'short')
      events += (await arrivals(daemon, id)).length
      turns += 1
    }
    const seconds = (performance.now() - from) / 1_000
    turnsPerSecond += turns / seconds
    eventsPerSecond += events / seconds
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, n) => work(daemons[n % daemons.length])))
  return { daemons: daemons.length, turnsPerSecond, eventsPerSecond }
}

/** `owner` works on the turns, `other` reads them. */
async function tailsOf([owner, other]: readonly FleetDaemon[], toHints: TcpProxy): Promise<readonly Tail[]> {
  if (owner === undefined || other === undefined) return []
  const hints = async (): Promise<unknown> => {
    const { json } = await other.api.call<{ checks: { hints: string } }>('GET', '/v1/ready')
    return json.checks.hints
  }
  await eventually('hints work', async () => (await hints()) === 'ok')
  const works = await behind(owner, other)
  const unnoticed = await behind(owner, other, () => (toHints.down = 'drop'))
  await eventually('the loss is noticed', async () => (await hints()) === 'down')
  const noticed = await behind(owner, other)
  toHints.heal()
  return [
    { name: 'hints arrive', ms: works },
    { name: 'hints have just been lost', ms: unnoticed },
    { name: 'hints are lost, and the daemon has noticed', ms: noticed },
  ]
}

/** By how many milliseconds events come later at `other`. `whenRead` is called when every tail has its first text. */
async function behind(owner: FleetDaemon, other: FleetDaemon, whenRead?: () => void): Promise<readonly number[]> {
  const read = Promise.withResolvers<void>()
  let waiting = TURNS
  let isCounted = whenRead === undefined
  void read.promise.then(() => {
    whenRead?.()
    isCounted = true
  })
  const ms: number[] = []
  await Promise.all(
    Array.from({ length: TURNS }, async () => {
      const { id } = await owner.api.session()
      await owner.api.prompt(id, 'stream')
      const sent = new Map<number, number>()
      const here = arrivals(owner, id, isTerminal, ({ seq, at }) => isCounted && sent.set(seq, at))
      let isFirst = true
      const there = await arrivals(other, id, isTerminal, ({ type }) => {
        if (type !== 'text-delta' || !isFirst) return
        isFirst = false
        waiting -= 1
        if (waiting === 0) read.resolve()
      })
      await here
      for (const { seq, type, at } of there) {
        const from = sent.get(seq)
        if (from !== undefined && type === 'text-delta') ms.push(at - from)
      }
    }),
  )
  return ms
}

/** The last daemon ends in the middle of its turns; the first reads when others continue them. */
async function stopped(
  daemons: readonly FleetDaemon[],
  signal: 'SIGTERM' | 'SIGKILL',
  sign: 'resumed' | 'taken-over',
): Promise<Stopped> {
  const [reader, leaving] = [daemons[0], daemons.at(-1)]
  if (reader === undefined || leaving === undefined) throw new Error('no daemon to stop')
  const turns = await Promise.all(
    Array.from({ length: TURNS }, async () => {
      const { id } = await leaving.api.session()
      const turnId = await leaving.api.prompt(id, 'wait')
      await arrivals(reader, id, ({ type }) => type === 'step-start')
      const { json } = await reader.api.call<Session>('GET', `/v1/sessions/${id}`)
      return { id, turnId, isTheirs: json.owner?.name === leaving.name }
    }),
  )
  const held = turns.filter(({ isTheirs }) => isTheirs)
  const continued = held.map(({ id }) => arrivals(reader, id, ({ type }) => type === sign))
  const from = performance.now()
  await leaving.program.kill(signal)
  const exitMs = performance.now() - from
  const ms = (await Promise.all(continued)).map((seen) => (seen.at(-1)?.at ?? Number.NaN) - from)
  await Promise.all(
    turns.map(async ({ id, turnId }) => {
      await reader.api.call('POST', `/v1/turns/${turnId}/cancel`)
      await arrivals(reader, id)
    }),
  )
  return { ms, exitMs }
}
