// The lowest contrast of a text on the page with its background (WCAG 2.2, "contrast ratio").
() => {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => channels(colour).slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const isOpaque = (colour) => channels(colour).length === 3 || channels(colour)[3] === 1;
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = at.parentElement?.closest("svg") && at.previousElementSibling?.tagName === "rect"
        ? getComputedStyle(at.previousElementSibling).fill : getComputedStyle(at).backgroundColor;
      if (isOpaque(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility()
    && [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim())
    && !["title", "desc", "SCRIPT"].includes(node.tagName));
  return Math.min(...texts.map((node) => {
    const style = getComputedStyle(node);
    const [low, high] = [light(node.closest("svg") ? style.fill : style.color), light(behind(node))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }));
}
