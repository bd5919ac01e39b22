/** Which addresses boxes never reach, whatever name leads there: this machine, its networks, and cloud metadata. Pure. */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** `own`: the addresses of this machine. `mayBePrivate`: the box's list says so for this name. */
export function isReachable(address: string, own: readonly string[], mayBePrivate: boolean): boolean {
  const forms = formsOf(address)
  if (forms.length === 0) return false
  return forms.every(({ text, family }) => {
    if (own.includes(text) || NEVER.check(text, family)) return false
    return mayBePrivate || !PRIVATE.check(text, family)
  })
}

// ---- details ----

type Family = 'ipv4' | 'ipv6'

const NEVER = listOf(
  ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4'],
  // Metadata services outside of link-local addresses.
  ['100.100.100.200/32', '168.63.129.16/32', 'fd00:ec2::254/128', 'fd20:ce::254/128'],
  // Forms that lead to IPv4 through gateways outside our control: 6to4, Teredo.
  ['::/127', 'fe80::/10', 'fec0::/10', 'ff00::/8', '2002::/16', '2001::/32', '100::/64'],
)

const PRIVATE = listOf(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7'])

function listOf(...groups: readonly (readonly string[])[]): BlockList {
  const list = new BlockList()
  for (const subnet of groups.flat()) {
    const [net = '', bits] = subnet.split('/')
    list.addSubnet(net, Number(bits), isIPv4(net) ? 'ipv4' : 'ipv6')
  }
  return list
}

/** The address, and the IPv4 address that an IPv6 form contains: mapped, translated, compatible, NAT64 or ISATAP. */
function formsOf(address: string): readonly { readonly text: string; readonly family: Family }[] {
  if (isIPv4(address)) return [{ text: address, family: 'ipv4' }]
  if (!isIPv6(address)) return []
  const text = address.split('%')[0] ?? ''
  const words = wordsOf(text)
  const isEmbedded = [
    [0, 0, 0, 0, 0, 0xffff],
    [0, 0, 0, 0, 0xffff, 0],
    [0, 0, 0, 0, 0, 0],
    [0x64, 0xff9b, 0, 0, 0, 0],
  ].some((prefix) => prefix.every((word, i) => words[i] === word))
  const [high = 0, low = 0] = words.slice(6)
  const inner = [high >> 8, high & 255, low >> 8, low & 255].join('.')
  const isLocalNat64 = words[0] === 0x64 && words[1] === 0xff9b && words[2] === 1
  if (isLocalNat64 && (words[4] !== 0 || words[5] !== 0)) return [] // the IPv4 address may also be in the middle
  const isIsatap = words[5] === 0x5efe && ((words[4] ?? 0) & ~0x0200) === 0
  const hasInner = isEmbedded || isLocalNat64 || isIsatap
  return [{ text, family: 'ipv6' }, ...(hasInner ? [{ text: inner, family: 'ipv4' as const }] : [])]
}

/** An IPv6 address as eight 16-bit numbers. */
function wordsOf(address: string): readonly number[] {
  const plain = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a: string, b: string, c: string, d: string) =>
    [(Number(a) << 8) | Number(b), (Number(c) << 8) | Number(d)].map((word) => word.toString(16)).join(':'),
  )
  const [head = '', tail] = plain.split('::')
  const words = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16))
  if (tail === undefined) return words(head)
  const [before, after] = [words(head), words(tail)]
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}
