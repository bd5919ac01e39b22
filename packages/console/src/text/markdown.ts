/**
 * Markdown to a plain tree, by marked's lexer. No renderer runs and no HTML string exists, so there is nothing to sanitise.
 *
 * I1  HTML is text. Images are links. Links are http, https or mailto, and show their host.
 * I2  It never throws and never takes long: a block that is large or nested too deep stays plain text.
 */
import { Lexer, type Token, type Tokens } from 'marked'

export type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'code'; readonly text: string; readonly lang: string }
  | { readonly kind: 'link'; readonly href: string; readonly host: string; readonly children: readonly Node[] }
  | { readonly kind: 'element'; readonly tag: Tag; readonly start?: number; readonly children: readonly Node[] }

export type Tag = (typeof TAGS)[number]
/** The only elements that Markdown can make. */
export const TAGS = [
  'p',
  'h3',
  'h4',
  'h5',
  'h6',
  'ul',
  'ol',
  'li',
  'blockquote',
  'strong',
  'em',
  'del',
  'code',
  'br',
  'hr',
  'table',
  'thead',
  'tbody',
  'tr',
  'th',
  'td',
  'span',
] as const

const BLOCK_CHARS_MAX = 32 * 1024
const DEPTH_MAX = 20
/** marked recurses once per `>` or list level: this many on one line overflow its stack. */
const NESTING = /^[ \t]*(?:(?:>|[-*+]|\d+[.)])[ \t]*){40}|(?:[*_~[\]()]){200}/m

export function markdown(block: string): readonly Node[] {
  if (block.length > BLOCK_CHARS_MAX || NESTING.test(block)) return [plain(block)] // I2
  try {
    return new Lexer({ gfm: true }).lex(block).flatMap((token) => nodesOf(token, 0))
  } catch {
    return [plain(block)] // I2: what the lexer cannot read is text
  }
}

/** Splits a text at blank lines outside of fences. While it streams, only the last block changes. */
export function blocksOf(text: string): readonly string[] {
  const blocks: string[] = []
  let fence: string | null = null
  let from = 0
  let at = 0
  while (at <= text.length) {
    const end = text.indexOf('\n', at)
    const stop = end === -1 ? text.length : end
    const [, mark] = /^ {0,3}(`{3,}|~{3,})/.exec(text.slice(at, Math.min(stop, at + 80))) ?? []
    if (mark !== undefined && fence === null) fence = mark
    else if (mark !== undefined && fence !== null && mark.startsWith(fence)) fence = null
    else if (fence === null && stop > from && text.slice(at, stop).trim() === '') {
      if (text.slice(from, at).trim() !== '') blocks.push(text.slice(from, stop + 1))
      from = stop + 1
    }
    if (end === -1) break
    at = end + 1
  }
  if (text.slice(from).trim() !== '') blocks.push(text.slice(from))
  return blocks
}

/** The address, if a page may link to it. */
export function safeHref(href: string): { readonly href: string; readonly host: string } | null {
  if (!URL.canParse(href)) return null
  const url = new URL(href)
  if (url.protocol === 'http:' || url.protocol === 'https:') return { href: url.href, host: url.host }
  return url.protocol === 'mailto:' ? { href: url.href, host: url.pathname } : null
}

// ---- details, in the order they are used above ----

const plain = (text: string): Node => ({ kind: 'element', tag: 'span', children: [{ kind: 'text', text }] })
const text = (value: string): Node => ({ kind: 'text', text: value })

function nodesOf(token: Token, depth: number): readonly Node[] {
  if (depth > DEPTH_MAX) return [text(token.raw)]
  const inside = (tag: Tag, tokens: readonly Token[] | undefined): readonly Node[] => [
    { kind: 'element', tag, children: (tokens ?? []).flatMap((child) => nodesOf(child, depth + 1)) },
  ]
  switch (token.type) {
    case 'space':
    case 'def':
      return []
    case 'paragraph':
      return inside('p', token.tokens)
    case 'heading':
      return inside(HEADINGS[Math.min(4, (token as Tokens.Heading).depth - 1)] ?? 'h6', token.tokens)
    case 'blockquote':
    case 'strong':
    case 'em':
    case 'del':
      return inside(token.type, token.tokens)
    case 'hr':
    case 'br':
      return [{ kind: 'element', tag: token.type, children: [] }]
    case 'code':
      return [{ kind: 'code', text: stringOf(token, 'text'), lang: stringOf(token, 'lang') }]
    case 'codespan':
      return [{ kind: 'element', tag: 'code', children: [text(stringOf(token, 'text'))] }]
    case 'list':
      return [listNode(token as Tokens.List, depth)]
    case 'table':
      return [tableNode(token as Tokens.Table, depth)]
    case 'link':
      return linkNodes(stringOf(token, 'href'), stringOf(token, 'text'), token.tokens ?? [], depth)
    case 'image':
      return linkNodes(
        stringOf(token, 'href'),
        `image: ${stringOf(token, 'text') || 'without a description'}`,
        [],
        depth,
      ) // I1
    case 'text':
      return token.tokens === undefined
        ? [text(stringOf(token, 'text'))]
        : token.tokens.flatMap((child) => nodesOf(child, depth + 1))
    case 'escape':
      return [text(stringOf(token, 'text'))]
    default:
      return [text(token.raw)] // I1: html, and whatever comes later
  }
}

const HEADINGS = ['h3', 'h3', 'h4', 'h5', 'h6'] as const

function stringOf(token: Token, name: 'text' | 'lang' | 'href'): string {
  const value: unknown = (token as Tokens.Generic)[name]
  return typeof value === 'string' ? value : ''
}

function listNode(list: Tokens.List, depth: number): Node {
  const children = list.items.map((item): Node => {
    const inner = item.tokens.flatMap((child) => nodesOf(child, depth + 1))
    return { kind: 'element', tag: 'li', children: item.task ? [text(item.checked ? '☑ ' : '☐ '), ...inner] : inner }
  })
  const start = list.ordered && typeof list.start === 'number' ? { start: list.start } : {}
  return { kind: 'element', tag: list.ordered ? 'ol' : 'ul', ...start, children }
}

function tableNode(table: Tokens.Table, depth: number): Node {
  const row = (cells: readonly Tokens.TableCell[], tag: 'th' | 'td'): Node => ({
    kind: 'element',
    tag: 'tr',
    children: cells.map((cell) => ({
      kind: 'element',
      tag,
      children: cell.tokens.flatMap((child) => nodesOf(child, depth + 1)),
    })),
  })
  return {
    kind: 'element',
    tag: 'table',
    children: [
      { kind: 'element', tag: 'thead', children: [row(table.header, 'th')] },
      { kind: 'element', tag: 'tbody', children: table.rows.map((cells) => row(cells, 'td')) },
    ],
  }
}

function linkNodes(href: string, label: string, tokens: readonly Token[], depth: number): readonly Node[] {
  const inner = tokens.length === 0 ? [text(label)] : tokens.flatMap((child) => nodesOf(child, depth + 1))
  const safe = safeHref(href)
  if (safe === null) return [...inner, text(` (${href})`)]
  const isSaid = label.includes(safe.host) || label === href
  return [{ kind: 'link', href: safe.href, host: isSaid ? '' : safe.host, children: inner }]
}
