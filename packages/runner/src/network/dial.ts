/** Connects to a name from outside of the box: resolves it here, checks every address, and dials the address that was checked. */
import { lookup } from 'node:dns/promises'
import net, { type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { isReachable } from './addresses.ts'
import type { DenialReason } from './denials.ts'

/** The internet, as the runner sees it. Tests bring their own. */
export type Internet = {
  readonly resolve: (name: string) => Promise<readonly string[]>
  readonly connect: (address: string, port: number) => Socket
  /** The addresses of this machine. */
  readonly own: () => readonly string[]
}

export const INTERNET: Internet = {
  resolve: async (name) => (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address),
  connect: (address, port) => net.connect({ host: address, port, noDelay: true }),
  own: () =>
    Object.values(networkInterfaces())
      .flat()
      .flatMap((entry) => (entry === undefined ? [] : [entry.address])),
}

export type Dialled = { readonly socket: Socket } | { readonly refused: DenialReason } | { readonly failed: string }

const CONNECT_MS = 10_000
const ADDRESSES_MAX = 3

export async function dial(internet: Internet, name: string, port: number, mayBePrivate: boolean): Promise<Dialled> {
  let addresses: readonly string[]
  try {
    addresses = await internet.resolve(name)
  } catch {
    return { refused: 'no_address' } // whatever the resolver says, there is nothing to dial
  }
  if (addresses.length === 0) return { refused: 'no_address' }
  const own = internet.own()
  const usable = addresses.filter((address) => isReachable(address, own, mayBePrivate))
  if (usable.length === 0) return { refused: 'private_address' }
  let why = ''
  for (const address of usable.slice(0, ADDRESSES_MAX)) {
    const found = await connected(internet.connect(address, port))
    if (typeof found !== 'string') return { socket: found }
    why = found
  }
  return { failed: why }
}

// ---- details ----

/** The socket, or why there is none. */
function connected(socket: Socket): Promise<Socket | string> {
  socket.allowHalfOpen = true // its client, or it, may be done earlier than the other
  return new Promise((resolve) => {
    socket.on('error', (error) => {
      socket.destroy()
      resolve(error.message)
    })
    socket.setTimeout(CONNECT_MS, () => {
      socket.destroy()
      resolve('no answer in time')
    })
    socket.once('connect', () => {
      socket.setTimeout(0)
      resolve(socket)
    })
  })
}
