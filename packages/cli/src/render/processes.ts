/** Background processes as text, and the command that stops one. Pure. */
import type { SessionProcess } from '@breakfall/wire'
import { cmd, shellQuoted } from '../process/command-name.ts'
import { printable } from '../text/printable.ts'
import { tableOf } from '../text/table.ts'

const HEAD = ['NAME', 'STATE', 'PORTS', 'SESSION', 'FOLDER'] as const

/** A header, and a line for each. */
export function processTable(processes: readonly SessionProcess[]): readonly string[] {
  const rows = processes.map(({ name, state, ports, sessionId, workspace }) => [
    printable(name),
    state,
    ports.length === 0 ? '-' : ports.join(' '),
    sessionId,
    workspace === null ? '(private)' : printable(workspace),
  ])
  return tableOf([HEAD, ...rows])
}

export type RunningProcess = Pick<SessionProcess, 'name' | 'ports' | 'sessionId'>

/** A process that a run leaves behind. */
export function leftRunning(process: RunningProcess): string {
  const ports = portsText(process.ports)
  const where = ports === '' ? '' : ` (${ports} of its box)`
  return `still running: ${printable(process.name)}${where}; to stop it: ${stopCommand(process)}`
}

export const stopCommand = ({ name, sessionId }: RunningProcess): string =>
  `${cmd('processes')} stop ${shellQuoted(printable(name))} --session ${sessionId}`

// ---- details ----

const portsText = (ports: readonly number[]): string =>
  ports.length === 0 ? '' : `port${ports.length === 1 ? '' : 's'} ${ports.join(', ')}`
