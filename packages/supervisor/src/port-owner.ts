/**
 * Determines which process listens on a port. Another server on the same port would pass a health check just as well, while a
 * child that could not bind waits beside it.
 */
import net from 'node:net'
import { groupsListeningOn, HAS_PROCESS_TABLE, type Listener, listenersBeside, socketsOf } from './platform.ts'
import { familyOf, type Leader } from './process-table.ts'

/** The remote end of a connection. */
export type SocketAddress = { readonly address: string; readonly port: number }

export type PortOwner = 'ours' | 'foreign' | 'none' | 'unknown'

/** `unknown` if this system does not say who listens. */
export async function portOwner(leader: Leader, at: SocketAddress): Promise<PortOwner> {
  return HAS_PROCESS_TABLE ? ownerByTable(leader, at) : ownerByGroup(leader, at.port)
}

// ---- details ----

function ownerByTable(leader: Leader, at: SocketAddress): PortOwner {
  // The child's own view: it may run in another network namespace.
  const listeners = listenersBeside(leader.pid)
  if (listeners === undefined) return 'unknown'
  const answering = nearest(
    listeners.filter(({ port }) => port === at.port),
    at.address,
  )
  if (answering.size === 0) return 'none'
  return familyOf(leader).some(({ pid }) => socketsOf(pid).some((socket) => answering.has(socket))) ? 'ours' : 'foreign'
}

/** The kernel prefers a listener on the exact address to a listener on all addresses. */
function nearest(listeners: readonly Listener[], address: string): ReadonlySet<string> {
  for (const spelling of spellings(address)) {
    const there = listeners.filter((listener) => listener.address === spelling)
    if (there.length > 0) return new Set(there.map(({ socket }) => socket))
  }
  return new Set()
}

/** The addresses on which a connection to this one is accepted, the most specific first. */
function spellings(address: string): readonly string[] {
  const v4 = address.replace(/^::ffff:/i, '')
  if (net.isIPv4(v4)) {
    const bytes = Buffer.from(v4.split('.').map(Number)).toString('hex')
    return [bytes, `${MAPPED}${bytes}`, '0'.repeat(8), `${MAPPED}${'0'.repeat(8)}`, '0'.repeat(32)]
  }
  return [hexOfIPv6(address.replace(/%.*$/, '')), '0'.repeat(32)]
}

const MAPPED = `${'0'.repeat(20)}ffff` // IPv4 mapped into IPv6

function hexOfIPv6(address: string): string {
  const [head = '', tail] = address.split('::')
  const groups = (part: string | undefined): readonly string[] => (part ? part.split(':') : [])
  const [before, after] = [groups(head), groups(tail)]
  const all = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
  return all.map((group) => group.toLowerCase().padStart(4, '0')).join('')
}

async function ownerByGroup(leader: Leader, port: number): Promise<PortOwner> {
  const groups = await groupsListeningOn(port)
  if (groups === undefined) return 'unknown'
  if (groups.length === 0) return 'none'
  return groups.includes(leader.pid) ? 'ours' : 'foreign'
}
