/** `breakfall processes`: lists the background processes that sessions have started, and stops one; with a daemon or without. */
import type { DaemonClient } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { SessionProcess } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { usageFault } from '../../command-line/usage-error.ts'
import { cmd } from '../../process/command-name.ts'
import { processTable, stopCommand } from '../../render/processes.ts'
import { fullId } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import { printable } from '../../text/printable.ts'

export type ProcessesOptions = { readonly session?: string }

export async function processesCommand(
  context: Context,
  options: ProcessesOptions,
  [action, named]: readonly string[],
): Promise<void> {
  if (action === 'stop' && named === undefined) throw usageFault(`Name the process; "${cmd('processes')}" lists them.`)
  if (action !== 'stop' && named !== undefined)
    throw usageFault(
      `"list" takes no name, got ${named}. Nothing was done. To stop it: ${cmd('processes')} stop ${named}`,
    )
  const { out, config } = context
  const { kind, viewer } = await findViewer(config, '')
  const session = options.session === undefined ? undefined : await fullId(viewer, options.session)
  const act = (client: DaemonClient): Promise<void> =>
    named === undefined ? listProcesses(client, session, context) : stopProcess(client, session, named, context)
  if (kind === 'live') return act(viewer)
  const isUnused = (await viewer.sessionPage({ limit: 1 })).sessions.length === 0
  if (isUnused && named === undefined && session === undefined) return printProcesses([], out) // no runner is started for this
  const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
  return withTemporaryDaemon(config, act)
}

// ---- details, in the order they are used above ----

async function listProcesses(client: DaemonClient, session: string | undefined, { out }: Context): Promise<void> {
  const { processes, unreachable = [] } = await client.processes(session)
  for (const id of unreachable) out.say(`runner ${id} does not answer, so its processes are missing here`)
  printProcesses(processes, out)
}

function printProcesses(processes: readonly SessionProcess[], out: Context['out']): void {
  if (out.json) {
    for (const process of processes) out.data(process)
    return out.result({ outcome: 'finished', processes: processes.length })
  }
  if (processes.length === 0) return out.line('no background process is running')
  const [head = '', ...lines] = processTable(processes)
  out.line(out.style('dim', head))
  for (const line of lines) out.line(line)
  const [first] = processes
  if (first !== undefined) out.line(out.style('dim', `to stop one: ${stopCommand(first)}`))
}

async function stopProcess(
  client: DaemonClient,
  session: string | undefined,
  named: string,
  { out }: Context,
): Promise<void> {
  const sessionId = session ?? sessionOf((await client.processes()).processes, named)
  const stopped = await client.stopProcess(sessionId, named)
  const { processes } = await client.processes(sessionId)
  if (processes.length === 0) await client.releaseBox(sessionId) // only the process has kept it
  if (out.json) return out.result({ outcome: 'finished', sessionId, ...stopped })
  out.line(`${printable(stopped.name)} is stopped: ${printable(stopped.end)}`)
}

function sessionOf(processes: readonly SessionProcess[], named: string): string {
  const found = processes.filter(({ name, execId }) => name === named || execId === named)
  const ids = [...new Set(found.map(({ sessionId }) => sessionId))]
  const [id] = ids
  if (id !== undefined && ids.length === 1) return id
  if (id === undefined)
    throw new Fault('exec_not_found', {
      error: `No background process ${named} is running; "${cmd('processes')}" lists those there are.`,
    })
  const commands = found.map((process) => `\n  ${stopCommand(process)}`).join('')
  throw usageFault(`${ids.length} sessions have a process ${named}; say which:${commands}`)
}
