/** Which ports the processes of an exec listen on, as /proc shows it outside: no probe connection is made. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** `pid`: a process in the exec's network and, in a sandbox, its pid namespace. `pids`: its processes, if that is known. */
export function listeningPorts(pid: number, pids?: readonly number[]): readonly number[] {
  const sockets = new Map([...listeners(pid, 'tcp'), ...listeners(pid, 'tcp6')])
  if (sockets.size === 0) return []
  const found = new Set<number>()
  for (const each of pids ?? inSameNamespace(pid))
    for (const inode of socketsOf(each)) {
      const port = sockets.get(inode)
      if (port !== undefined) found.add(port)
    }
  return [...found].toSorted((a, b) => a - b)
}

/** Pairs of a socket's inode and its port. Pure. */
export function parseListeners(text: string): readonly (readonly [string, number])[] {
  return text.split('\n').flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
    const port = Number.parseInt(local?.split(':')[1] ?? '', 16)
    return state === LISTEN && inode !== undefined && port > 0 ? [[inode, port] as const] : []
  })
}

// ---- details ----

const LISTEN = '0A'

function listeners(pid: number, kind: 'tcp' | 'tcp6'): readonly (readonly [string, number])[] {
  try {
    return parseListeners(readFileSync(`/proc/${pid}/net/${kind}`, 'latin1'))
  } catch {
    return [] // it ended, or the kernel has no IPv6
  }
}

function socketsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`))?.[1]
      return inode === undefined ? [] : [inode]
    })
  } catch {
    return [] // it ended
  }
}

function inSameNamespace(pid: number): readonly number[] {
  const namespace = linkOf(`/proc/${pid}/ns/pid`)
  if (namespace === '') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && linkOf(`/proc/${name}/ns/pid`) === namespace)
    .map(Number)
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return '' // it ended, or it is not ours
  }
}
