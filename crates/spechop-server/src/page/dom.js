// Elements. Text goes in as text nodes only, never as markup: questions and passages may hold anything.

const SVG = 'http://www.w3.org/2000/svg';

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  build(document.createElementNS(SVG, name), attributes, children);

export const set = (node, attributes) => build(node, attributes, []);

/// Writes a text, and only if it is another one.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/// A link may lead to the web, and nowhere else.
export function webAddress(url) {
  try {
    const address = new URL(url);
    return ['http:', 'https:'].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}
