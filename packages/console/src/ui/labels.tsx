/** What things are called on every screen: a state, a category of fault, and this page. */
import type { VNode } from 'preact'
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import { categoryLink } from './route.ts'
import { type StateName, STATES } from './states.ts'

export function Badge({ state, word }: { readonly state: StateName; readonly word?: string }): VNode {
  const { glyph, tone, word: usual } = STATES[state]
  return (
    <span class={`badge tone-${tone}`}>
      <span class="glyph" aria-hidden="true">
        {glyph}
      </span>
      <span>{word ?? usual}</span>
    </span>
  )
}

export const titleOfCategory = (category: string): string =>
  isFaultCategory(category) ? FAULTS[category].title : category.replaceAll('_', ' ')

export function Category({ name }: { readonly name: string }): VNode {
  return isFaultCategory(name) ? (
    <a href={categoryLink(name)}>
      <code>{name}</code>
    </a>
  ) : (
    <code>{name}</code>
  )
}

export function Logo(): VNode {
  return (
    <svg viewBox="0 0 60 36" fill="none" aria-hidden="true">
      <path d="M2 22C9 22 10 8 18 8" stroke="currentColor" stroke-width="4" stroke-linecap="round" />
      <path d="M38 26C46 26 49 12 58 12" stroke="currentColor" stroke-width="4" stroke-linecap="round" />
      <path
        class="cut"
        d="M21 10l5 6-4 5 6 6 7 0"
        stroke="currentColor"
        stroke-width="2.6"
        stroke-linecap="round"
        stroke-linejoin="round"
        stroke-dasharray="1 5"
      />
    </svg>
  )
}
