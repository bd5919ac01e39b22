/** Which ports the processes of an exec listen on, as the system shows it outside: no probe connection is made. */
import { listenersBeside, processesBeside, socketsOf } from '@breakfall/supervisor/platform'

/** `pid`: a process in the exec's network and, in a sandbox, its pid namespace. `pids`: its processes, if that is known. */
export function listeningPorts(pid: number, pids?: readonly number[]): readonly number[] {
  const listeners = listenersBeside(pid) ?? []
  if (listeners.length === 0) return []
  const held = new Set((pids ?? processesBeside(pid)).flatMap(socketsOf))
  const ports = new Set(listeners.filter(({ socket }) => held.has(socket)).map(({ port }) => port))
  return [...ports].toSorted((a, b) => a - b)
}
