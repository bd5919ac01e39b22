/**
 * Background processes of a session: what the model reads when it starts one, the `process` tool, and the news of those that
 * ended.
 *
 * I1  The end of a process is reported once: in the next tool result, even after a restart of the daemon. A badly timed crash
 *     may report it twice, but never loses it.
 * I2  News never fails a call: a runner that is away is asked again with the next result.
 */
import { isFault } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Exec, ExecExit } from '@breakfall/wire'
import type { BoxProcess } from '@breakfall/wire/internal'
import type { StartedProcess } from '../rows.ts'
import { ensureBox, isBoxGone } from '../boxes/box.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { forModel, OUTPUT_LIMITS } from './output.ts'
import { type GiveUp, isGiveUp } from '../turn/step-result.ts'
import type { Runners } from '../runner/runners.ts'
import { callRunner } from '../boxes/runner-call.ts'
import { failedOutcome, type ToolOutcome } from '../turn/tool-outcome.ts'
import type { ToolArguments } from './arguments.ts'

const KNOWN_MAX = 32
const NEWS_MS = 5_000

/** What the model reads about a process that runs now. It is known from here on. */
export async function startedOutcome(session: OwnedSession, exec: Exec, output: string): Promise<ToolOutcome> {
  const { execId, background } = exec
  const name = background?.name ?? execId
  await remember(session, { execId, name })
  const state =
    background?.ready === true
      ? `is running in the background${portsIn(background.ports)}`
      : 'runs in the background, but is not ready yet; look at its output'
  const ready = background?.readyMs == null ? '' : `, ready after ${duration(background.readyMs)}`
  const note = `[process ${name} ${state}${ready}. Its id is ${execId}.]`
  return { outcome: 'ok', text: output === '' ? note : `${output}\n${note}` }
}

/** The `process` tool. Every action may be repeated. */
export function runProcess(
  runners: Runners,
  session: OwnedSession,
  input: ToolArguments['process'],
): Promise<ToolOutcome | GiveUp> | ToolOutcome {
  const { action, id } = input
  if (action !== 'list' && id === undefined)
    return failedOutcome(`${action} needs the name or id of a process; action "list" shows them.`)
  if (!session.data.boxMade) return action === 'list' ? NONE : notFound(id ?? '')
  return callRunner<ToolOutcome>(runners, session, async (client, runnerId) => {
    try {
      const box = await ensureBox(runners, session, client, runnerId)
      if (isGiveUp(box)) return box
      const live = await client.listProcesses(session.boxId, { signal: session.signal })
      if (action === 'list') return listed(live)
      const execId = find(session, live, id ?? '')
      if (execId === undefined) return notFound(id ?? '')
      return await (action === 'output' ? output(session, client, execId) : stop(session, client, execId, live))
    } catch (thrown) {
      if (isBoxGone(thrown)) return failedOutcome('The box is gone, and its processes with it.')
      throw thrown
    }
  })
}

export type EndedProcesses = {
  /** `[process web ended: exit code 1]` */
  readonly lines: readonly string[]
  /** The model has read them. */
  readonly acknowledged: () => Promise<void>
}

/** The processes that ended since the model last heard of them. */
export async function endedProcesses(runners: Runners, session: OwnedSession): Promise<EndedProcesses> {
  const known = (session.data.processes ?? []).filter(({ isOver }) => isOver !== true)
  if (known.length === 0) return NO_NEWS
  const signal = AbortSignal.any([session.signal, session.clock.timeout(NEWS_MS)])
  try {
    const { client } = await runners.connect(session.data.runnerId, session.row.epoch, signal)
    const live = await processesOf(client, session.boxId, signal)
    const found: { line: string; now: StartedProcess[] }[] = []
    for (const process of known) {
      if (live.some(({ execId }) => execId === process.execId)) continue
      const end = await endIn(client, session.boxId, process.execId, signal)
      const next = live.find(({ name }) => name === process.name)
      const again = next === undefined ? '' : `; it was started again as ${next.execId}`
      const over: StartedProcess = { ...process, isOver: true }
      const now = next === undefined ? [over] : [over, { execId: next.execId, name: next.name }]
      found.push({ line: `[process ${process.name} ended: ${end}${again}]`, now })
    }
    return {
      lines: found.map(({ line }) => line),
      acknowledged: async () => {
        if (found.length > 0) await remember(session, ...found.flatMap(({ now }) => now))
      },
    }
  } catch {
    return NO_NEWS // I2
  }
}

/** How a process that was stopped ended. `live`: those that were listed before. */
export function stoppedEnd(exit: ExecExit, execId: string, live: readonly BoxProcess[]): string {
  const wasWaiting = live.some((process) => process.execId === execId && process.state === 'restarting')
  return wasWaiting ? `${endOf(exit)}; it is not started again` : endOf(exit)
}

/** How a command or a process ended, in a few words. `limit`: its time limit. */
export function endOf(exit: ExecExit, limit?: string): string {
  switch (exit.cause) {
    case 'exited':
      return exit.signalGuess === null
        ? `exit code ${exit.code}`
        : `exit code ${exit.code}, perhaps ${exit.signalGuess}`
    case 'signaled':
      return `ended by signal ${exit.signal ?? 'unknown'}`
    case 'timed_out':
      return limit === undefined ? 'time limit' : `ended after ${limit}: time limit; pass timeoutMs for more`
    case 'oom_killed':
      return 'killed: out of memory'
    case 'output_limit':
      return `ended: ${causeOf(exit) ?? 'it wrote more than allowed; write to a file instead'}`
    case 'box_stopped':
      return 'ended: the box was stopped'
    case 'killed':
      return 'killed by request'
    case 'spawn_failed':
      return `could not be started: ${causeOf(exit) ?? exit.reason ?? 'the reason is unknown'}`
    case 'runner_lost':
      return 'the runner lost track of it'
  }
}

// ---- details, in the order they are used above ----

const portsIn = (ports: readonly number[]): string =>
  ports.length === 0 ? '' : `, listening on port${ports.length === 1 ? '' : 's'} ${ports.join(', ')}`

async function remember(session: OwnedSession, ...changed: readonly StartedProcess[]): Promise<void> {
  const isChanged = (known: StartedProcess): boolean => changed.some(({ execId }) => execId === known.execId)
  const rest = (session.data.processes ?? []).filter((known) => !isChanged(known))
  await session.setData({ processes: [...rest, ...changed].slice(-KNOWN_MAX) })
}

const NONE: ToolOutcome = { outcome: 'ok', text: 'No background process is running.' }

const notFound = (id: string): ToolOutcome =>
  failedOutcome(`There is no process ${id}; action "list" shows those there are.`)

function listed(live: readonly BoxProcess[]): ToolOutcome {
  if (live.length === 0) return NONE
  const lines = live.map(({ execId, name, state, ports }) => `${name} (${execId}): ${state}${portsIn(ports)}`)
  return { outcome: 'ok', text: lines.join('\n') }
}

/** A name means the newest process that has it. */
function find(session: OwnedSession, live: readonly BoxProcess[], id: string): string | undefined {
  const all = [...(session.data.processes ?? []), ...live]
  return (all.find(({ execId }) => execId === id) ?? all.findLast(({ name }) => name === id))?.execId
}

/** The newest part of what it printed. It is started with both streams in one. */
async function output(session: OwnedSession, client: RunnerClient, execId: string): Promise<ToolOutcome> {
  const { signal, boxId } = session
  const exec = await client.getExec(boxId, execId, { signal })
  const from = Math.max(0, exec.stdoutBytes - OUTPUT_LIMITS.modelChars - LEAD_BYTES)
  const bytes =
    exec.stdoutBytes === 0
      ? Buffer.alloc(0)
      : await client.execOutput(boxId, execId, 'stdout', { from, to: exec.stdoutBytes, signal })
  const clean = session.secrets.scrub(bytes.toString('utf8'))
  const text =
    from === 0 ? clean : `[… the first ${from + LEAD_BYTES} bytes are left out …]\n${clean.slice(LEAD_BYTES)}`
  const state =
    exec.exit === null ? `${exec.state}${portsIn(exec.background?.ports ?? [])}` : `ended: ${endOf(exec.exit)}`
  return {
    outcome: 'ok',
    text: `${forModel(text).trimEnd() || '(no output)'}\n[process ${exec.background?.name ?? execId}: ${state}]`,
  }
}

/** Read and not shown: a secret may be cut in two where the reading begins. */
const LEAD_BYTES = 4_096

async function stop(
  session: OwnedSession,
  client: RunnerClient,
  execId: string,
  live: readonly BoxProcess[],
): Promise<ToolOutcome> {
  const exec = await client.killExec(session.boxId, execId, { signal: session.signal })
  const name = exec.background?.name ?? execId
  await remember(session, { execId, name, isOver: true })
  const end = exec.exit === null ? 'is being ended' : `ended: ${stoppedEnd(exec.exit, execId, live)}`
  return { outcome: 'ok', text: `[process ${name} ${end}]` }
}

const NO_NEWS: EndedProcesses = { lines: [], acknowledged: () => Promise.resolve() }

async function processesOf(client: RunnerClient, boxId: string, signal: AbortSignal): Promise<readonly BoxProcess[]> {
  try {
    return await client.listProcesses(boxId, { signal })
  } catch (thrown) {
    if (isBoxGone(thrown)) return []
    throw thrown
  }
}

async function endIn(client: RunnerClient, boxId: string, execId: string, signal: AbortSignal): Promise<string> {
  try {
    const { exit } = await client.getExec(boxId, execId, { signal })
    return exit === null ? 'how is not known yet' : endOf(exit)
  } catch (thrown) {
    if (isFault(thrown) && GONE.has(thrown.category)) return 'its box is gone'
    throw thrown
  }
}

const GONE: ReadonlySet<string> = new Set(['box_not_found', 'exec_not_found'])

/** The runner's explanation, if it gives one. */
const causeOf = ({ diagnostics }: ExecExit): string | undefined =>
  diagnostics.find(({ rank }) => rank === 'cause')?.message
