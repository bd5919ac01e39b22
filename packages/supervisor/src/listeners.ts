/**
 * Whether a port answers because *our* process listens there. Another server on the same port answers a health check just
 * as well, and a child that could not bind may sit and wait beside it.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { familyOf, HAS_PROC, type Leader } from './process-table.ts'

/** `unknown` where this system does not tell who listens. */
export async function listensOn(leader: Leader, port: number): Promise<'ours' | 'foreign' | 'nobody' | 'unknown'> {
  return HAS_PROC ? listensByProc(leader, port) : listensByLsof(leader, port)
}

// ---- details ----

const LISTEN = '0A' // in the state column of /proc/net/tcp

function listensByProc(leader: Leader, port: number): 'ours' | 'foreign' | 'nobody' | 'unknown' {
  // The child's own view: it may sit in another network namespace.
  const sockets = socketsOn(`/proc/${leader.pid}/net`, port)
  if (sockets === undefined) return 'unknown'
  if (sockets.size === 0) return 'nobody'
  return familyOf(leader).some((entry) => holdsOneOf(entry.pid, sockets)) ? 'ours' : 'foreign'
}

function socketsOn(folder: string, port: number): ReadonlySet<string> | undefined {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const inodes = new Set<string>()
  let readable = false
  for (const name of ['tcp', 'tcp6']) {
    let table: string
    try {
      table = readFileSync(`${folder}/${name}`, 'latin1')
    } catch {
      continue // no IPv6 on this machine, or the process has gone
    }
    readable = true
    for (const row of table.split('\n').slice(1)) {
      const fields = row.trim().split(/\s+/)
      if (fields[3] === LISTEN && fields[1]?.endsWith(suffix) === true && fields[9] !== undefined) inodes.add(fields[9])
    }
  }
  return readable ? inodes : undefined
}

function holdsOneOf(pid: number, inodes: ReadonlySet<string>): boolean {
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`))?.[1]
      if (inode !== undefined && inodes.has(inode)) return true
    }
  } catch {
    return false // gone, or not ours to look into
  }
  return false
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file)
  } catch {
    return '' // closed between the listing and the look
  }
}

/** macOS: `lsof` tells the process and its group. */
async function listensByLsof(leader: Leader, port: number): Promise<'ours' | 'foreign' | 'nobody' | 'unknown'> {
  const output = await new Promise<string | undefined>((resolve) => {
    execFile('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fg'], { timeout: 5_000 }, (error, stdout) => {
      const missing = (error as NodeJS.ErrnoException | null)?.code === 'ENOENT'
      resolve(missing ? undefined : stdout)
    })
  })
  if (output === undefined) return 'unknown'
  const groups = [...output.matchAll(/^g(\d+)$/gm)].map((match) => Number(match[1]))
  if (groups.length === 0) return 'nobody'
  return groups.includes(leader.pid) ? 'ours' : 'foreign'
}
