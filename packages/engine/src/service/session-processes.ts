/**
 * The background processes of sessions, for the user: a process outlives its turn, its run and its daemon, and ends with its box.
 *
 * I1  Stopping one needs no turn and changes nothing else. With its next tool result, the model learns that it ended.
 * I2  A runner that does not answer is named, and hides no other.
 */
import { Fault } from '@breakfall/faults'
import type { SessionProcess, SessionProcessList, StoppedProcess } from '@breakfall/wire'
import type { BoxProcess } from '@breakfall/wire/internal'
import type { ConnectedRunner, Runners } from '../runner/runners.ts'
import type { Store } from '../store/store.ts'
import type { SessionRow } from '../rows.ts'
import { isBoxGone } from '../boxes/box.ts'
import { stoppedEnd } from '../tools/processes.ts'
import { askRunner, runnerFault } from '../boxes/runner-call.ts'

const ANSWER_MS = 10_000 // a runner that was ended is started for the answer

export class SessionProcesses {
  readonly #runners: Runners
  readonly #store: Store

  constructor(runners: Runners, store: Store) {
    this.#runners = runners
    this.#store = store
  }

  /** Those of every session. Finds the runner of this machine, and starts it if it has ended. */
  async all(caller: AbortSignal): Promise<SessionProcessList> {
    const signal = AbortSignal.any([caller, this.#runners.clock.timeout(ANSWER_MS)])
    const runners = [...(await this.#runners.all(signal, { finds: true }))]
    const asked = await Promise.allSettled(runners.map(async ([, connect]) => this.#at(await connect(), signal)))
    const unreachable = runners.flatMap(([id], at) => (asked[at]?.status === 'rejected' ? [id] : [])) // I2
    const processes = asked.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    return { processes, ...(unreachable.length > 0 && { unreachable }) }
  }

  async of(sessionId: string, signal: AbortSignal): Promise<SessionProcessList> {
    const row = await this.#row(sessionId)
    return { processes: (await this.#live(row, signal)).map((process) => shown(row, process)) }
  }

  /** By its id, or by its name: then the newest that has it. */
  async stop(sessionId: string, named: string, signal: AbortSignal): Promise<StoppedProcess> {
    const row = await this.#row(sessionId)
    const live = await this.#live(row, signal)
    const found = live.find(({ execId }) => execId === named) ?? live.findLast(({ name }) => name === named)
    if (found === undefined) throw noProcess(named, live)
    const { execId, name } = found
    const { exit } = await this.#ask(row, signal, (client) => client.killExec(boxOf(row), execId, { signal }))
    return { execId, name, end: exit === null ? 'it is being ended' : stoppedEnd(exit, execId, live) }
  }

  // ---- details ----

  async #row(sessionId: string): Promise<SessionRow> {
    const row = await this.#store.getSession(sessionId)
    if (row === undefined) throw new Fault('not_found', { facts: { name: 'such session' } })
    return row
  }

  async #live(row: SessionRow, signal: AbortSignal): Promise<readonly BoxProcess[]> {
    if (row.data.runnerId === null || !row.data.boxMade) return []
    try {
      return await this.#ask(row, signal, (client) => client.listProcesses(boxOf(row), { signal }))
    } catch (thrown) {
      if (isBoxGone(thrown)) return []
      throw thrown
    }
  }

  async #ask<T>(row: SessionRow, signal: AbortSignal, work: Parameters<typeof askRunner<T>>[3]): Promise<T> {
    try {
      return await askRunner(this.#runners, row, signal, work)
    } catch (thrown) {
      throw runnerFault(thrown, boxOf(row))
    }
  }

  async #at({ client }: ConnectedRunner, signal: AbortSignal): Promise<readonly SessionProcess[]> {
    const found: SessionProcess[] = []
    for (const { id, processes = [] } of await client.listBoxes({ state: 'running', signal })) {
      const [row] = processes.length === 0 ? [] : await this.#store.sessionsOfBox(id)
      if (row !== undefined) found.push(...processes.map((process) => shown(row, process)))
    }
    return found
  }
}

const boxOf = ({ id, data }: SessionRow): string => data.box.id ?? id

const shown = ({ id, data }: SessionRow, { execId, name, state, ports }: BoxProcess): SessionProcess => ({
  sessionId: id,
  execId,
  name,
  state,
  ports,
  workspace: data.box.workspace ?? null,
})

function noProcess(named: string, live: readonly BoxProcess[]): Fault {
  const there = live.length === 0 ? 'none runs' : `running: ${live.map(({ name }) => name).join(', ')}`
  return new Fault('exec_not_found', { error: `The session has no background process ${named}; ${there}.` })
}
