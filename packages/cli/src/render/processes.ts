/** Background processes as text, and the command that stops one. Pure. */
import type { SessionProcess } from '@breakfall/wire'
import { printable } from './printable.ts'
import { shellQuoted } from './shell-quoted.ts'

/** `web  running  port 3000  session 0198…  /home/me/project` */
export function processLine({ name, state, ports, sessionId, workspace }: SessionProcess): string {
  const parts = [printable(name), state, portsText(ports), `session ${sessionId}`, printable(workspace ?? '')]
  return parts.filter((part) => part !== '').join('  ')
}

/** A process that a run leaves behind. */
export function leftRunning(process: SessionProcess): string {
  const ports = portsText(process.ports)
  const where = ports === '' ? '' : ` (${ports} of its box)`
  return `still running: ${printable(process.name)}${where}; to stop it: ${stopCommand(process)}`
}

export const stopCommand = ({ name, sessionId }: SessionProcess): string =>
  `breakfall processes stop ${shellQuoted(printable(name))} --session ${sessionId}`

// ---- details ----

const portsText = (ports: readonly number[]): string =>
  ports.length === 0 ? '' : `port${ports.length === 1 ? '' : 's'} ${ports.join(', ')}`
