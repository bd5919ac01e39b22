/** Markdown on the page: vnodes from the tree. The lexer loads after the first paint; until then, text is text. */
import type { ComponentChildren, JSX, VNode } from 'preact'
import { memo } from './memo.ts'
import { type Later, later } from '../text/load-later.ts'
import type { Node } from '../text/markdown.ts'
import { printable } from '../text/reveal.ts'

export function Markdown({ text }: { readonly text: string }): VNode {
  const loaded = later.value
  if (loaded === null) return <div class="md plain">{printable(text)}</div>
  return (
    <div class="md">
      {loaded.blocksOf(text).map((block, index) => (
        <Block key={index} block={block} lexer={loaded} />
      ))}
    </div>
  )
}

// ---- details ----

/** Lexed again only if its own text changes. */
const Block = memo(
  ({ block, lexer: loaded }: { readonly block: string; readonly lexer: Later }): VNode => (
    <>{loaded.markdown(block).map(draw)}</>
  ),
  (a, b) => a.block === b.block,
)

function draw(node: Node, index: number): ComponentChildren {
  switch (node.kind) {
    case 'text':
      return printable(node.text)
    case 'code':
      return (
        <pre
          key={index}
          class="code"
          tabIndex={0}
          role="group"
          aria-label={node.lang === '' ? 'code' : `${node.lang} code`}
        >
          <code>{printable(node.text)}</code>
        </pre>
      )
    case 'link':
      return (
        <a key={index} href={node.href} target="_blank" rel="noopener noreferrer">
          {node.children.map(draw)}
          {node.host === '' ? null : <span class="host"> ({node.host})</span>}
        </a>
      )
    case 'element':
      return element(node, index)
  }
}

function element({ tag, start, children }: Extract<Node, { kind: 'element' }>, index: number): JSX.Element {
  const Name = tag
  if (tag === 'br' || tag === 'hr') return <Name key={index} />
  if (tag === 'table')
    return (
      <div key={index} class="table" tabIndex={0} role="region" aria-label="table">
        <table>{children.map(draw)}</table>
      </div>
    )
  if (tag === 'ol')
    return (
      <ol key={index} start={start}>
        {children.map(draw)}
      </ol>
    )
  return <Name key={index}>{children.map(draw)}</Name>
}
