/**
 * Whether a port answers because *our* process listens there. Another server on the same port answers a health check just
 * as well, and a child that could not bind may sit and wait beside it.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import net from 'node:net'
import { endianness } from 'node:os'
import { familyOf, HAS_PROC, type Leader } from './process-table.ts'

/** Where a connection ended: the address and port that answered. */
export type Place = { readonly address: string; readonly port: number }

/** `unknown` where this system does not tell who listens. */
export async function listensOn(leader: Leader, place: Place): Promise<'ours' | 'foreign' | 'nobody' | 'unknown'> {
  return HAS_PROC ? listensByProc(leader, place) : listensByLsof(leader, place.port)
}

// ---- details ----

const LISTEN = '0A' // in the state column of /proc/net/tcp

function listensByProc(leader: Leader, place: Place): 'ours' | 'foreign' | 'nobody' | 'unknown' {
  // The child's own view: it may sit in another network namespace.
  const sockets = socketsOn(`/proc/${leader.pid}/net`, place.port)
  if (sockets === undefined) return 'unknown'
  const answering = nearest(sockets, place.address)
  if (answering.size === 0) return 'nobody'
  return familyOf(leader).some((entry) => holdsOneOf(entry.pid, answering)) ? 'ours' : 'foreign'
}

type Listener = { readonly address: string; readonly inode: string }

/** Every socket that listens at the port, with its address as the kernel writes it. */
function socketsOn(folder: string, port: number): readonly Listener[] | undefined {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const found: Listener[] = []
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
      const [, local = '', , state, , , , , , inode] = row.trim().split(/\s+/)
      if (state !== LISTEN || !local.endsWith(suffix) || inode === undefined) continue
      found.push({ address: local.slice(0, -suffix.length), inode })
    }
  }
  return readable ? found : undefined
}

/** The kernel gives a connection to whoever listens at that very address, else to whoever listens at all of its kind. */
function nearest(sockets: readonly Listener[], address: string): ReadonlySet<string> {
  for (const spelling of spellings(address)) {
    const there = sockets.filter((socket) => socket.address === spelling)
    if (there.length > 0) return new Set(there.map((socket) => socket.inode))
  }
  return new Set()
}

/** As /proc/net writes an address (in words of the machine's own byte order), the nearest listener first. */
function spellings(address: string): readonly string[] {
  const v4 = address.replace(/^::ffff:/i, '')
  if (net.isIPv4(v4)) {
    const word = words(Buffer.from(v4.split('.').map(Number)))
    return [word, `${MAPPED}${word}`, '0'.repeat(8), `${MAPPED}${'0'.repeat(8)}`, '0'.repeat(32)]
  }
  return [words(bytesOfIPv6(address.replace(/%.*$/, ''))), '0'.repeat(32)]
}

const MAPPED = words(Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])) // IPv4 inside of IPv6

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
