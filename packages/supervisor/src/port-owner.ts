/**
 * Determines which process listens on a port. Another server on the same port would pass a health check just as well, while a
 * child that could not bind waits beside it.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import net from 'node:net'
import { endianness } from 'node:os'
import { familyOf, HAS_PROC, type Leader } from './process-table.ts'
import { errorCode } from './record.ts'

/** The remote end of a connection. */
export type SocketAddress = { readonly address: string; readonly port: number }

export type PortOwner = 'ours' | 'foreign' | 'none' | 'unknown'

/** `unknown` if this system does not say who listens. */
export async function portOwner(leader: Leader, at: SocketAddress): Promise<PortOwner> {
  return HAS_PROC ? ownerByProc(leader, at) : ownerByLsof(leader, at.port)
}

// ---- details ----

const LISTEN = '0A' // in the state column of /proc/net/tcp

function ownerByProc(leader: Leader, at: SocketAddress): PortOwner {
  // The child's own view: it may run in another network namespace.
  const sockets = socketsOn(`/proc/${leader.pid}/net`, at.port)
  if (sockets === undefined) return 'unknown'
  const answering = nearest(sockets, at.address)
  if (answering.size === 0) return 'none'
  return familyOf(leader).some((entry) => holdsOneOf(entry.pid, answering)) ? 'ours' : 'foreign'
}

type Listener = { readonly address: string; readonly inode: string }

/** Every socket that listens on the port, with its address as the kernel writes it. */
function socketsOn(folder: string, port: number): readonly Listener[] | undefined {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const found: Listener[] = []
  let readable = false
  for (const name of ['tcp', 'tcp6']) {
    let table: string
    try {
      table = readFileSync(`${folder}/${name}`, 'latin1')
    } catch {
      continue // no IPv6 on this machine, or the process is gone
    }
    readable = true
    for (const row of table.split('\n').slice(1)) {
      const [, local = '', , state, , , , , , inode] = row.trim().split(/\s+/)
      if (state !== LISTEN || !local.endsWith(suffix) || inode === undefined) continue
      found.push({ address: local.slice(0, -suffix.length), inode })
    }
  }
  return readable ? found : undefined
}

/** The kernel prefers a listener on the exact address to a listener on all addresses. */
function nearest(sockets: readonly Listener[], address: string): ReadonlySet<string> {
  for (const spelling of spellings(address)) {
    const there = sockets.filter((socket) => socket.address === spelling)
    if (there.length > 0) return new Set(there.map((socket) => socket.inode))
  }
  return new Set()
}

/** How /proc/net may spell an address (in the machine's byte order), the most specific listener first. */
function spellings(address: string): readonly string[] {
  const v4 = address.replace(/^::ffff:/i, '')
  if (net.isIPv4(v4)) {
    const word = words(Buffer.from(v4.split('.').map(Number)))
    return [word, `${MAPPED}${word}`, '0'.repeat(8), `${MAPPED}${'0'.repeat(8)}`, '0'.repeat(32)]
  }
  return [words(bytesOfIPv6(address.replace(/%.*$/, ''))), '0'.repeat(32)]
}

const MAPPED = words(Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])) // IPv4 mapped into IPv6

function words(bytes: Buffer): string {
  const isLittle = endianness() === 'LE'
  let text = ''
  for (let at = 0; at < bytes.length; at += 4) {
    const word = isLittle ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at)
    text += word.toString(16).toUpperCase().padStart(8, '0')
  }
  return text
}

function bytesOfIPv6(address: string): Buffer {
  const [head = '', tail] = address.split('::')
  const groups = (part: string | undefined): readonly string[] => (part ? part.split(':') : [])
  const [before, after] = [groups(head), groups(tail)]
  const all = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex')
}

function holdsOneOf(pid: number, inodes: ReadonlySet<string>): boolean {
  try {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`))?.[1]
      if (inode !== undefined && inodes.has(inode)) return true
    }
  } catch {
    return false // gone, or not readable for us
  }
  return false
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file)
  } catch {
    return '' // closed after we listed it
  }
}

/** macOS: `lsof` lists the process group. */
async function ownerByLsof(leader: Leader, port: number): Promise<PortOwner> {
  const output = await new Promise<string | undefined>((resolve) => {
    execFile('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fg'], { timeout: 5_000 }, (error, stdout) => {
      resolve(errorCode(error) === 'ENOENT' ? undefined : stdout)
    })
  })
  if (output === undefined) return 'unknown'
  const groups = [...output.matchAll(/^g(\d+)$/gm)].map((match) => Number(match[1]))
  if (groups.length === 0) return 'none'
  return groups.includes(leader.pid) ? 'ours' : 'foreign'
}
